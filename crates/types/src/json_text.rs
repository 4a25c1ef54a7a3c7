//! A piece of JSON as text: what is passed on, or read later, without ever being built.
//!
//! serde_json's own raw value is not used. Its feature gives every object with one certain key a second meaning, for every
//! program that is linked with it: the text below that key is parsed again, with a new bound of depth. Whoever may send JSON
//! could then nest without end, and show one value where another is read.

use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;

/// JSON that was read once and is whole. It has no spaces, and its numbers are as Rust prints them.
#[derive(Clone, PartialEq, Eq)]
pub struct JsonText(Box<str>);

impl JsonText {
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The text of a value of ours.
    pub fn of(value: &impl Serialize) -> Result<Self, serde_json::Error> {
        Ok(Self(serde_json::to_string(value)?.into()))
    }

    /// The value, as its reader wants it.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_str(&self.0)
    }
}

/// What came is seldom fit for a log.
impl fmt::Debug for JsonText {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "JsonText({} bytes)", self.0.len())
    }
}

impl<'de> Deserialize<'de> for JsonText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut text = Vec::new();
        serde_transcode::transcode(deserializer, &mut serde_json::Serializer::new(&mut text))
            .map_err(D::Error::custom)?;
        let text = String::from_utf8(text).map_err(D::Error::custom)?;
        Ok(Self(text.into()))
    }
}

impl Serialize for JsonText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serde_transcode::transcode(&mut serde_json::Deserializer::from_str(&self.0), serializer)
    }
}

#[cfg(test)]
mod tests {
    use super::JsonText;
    use serde_json::{Value, from_str, to_string};

    #[test]
    fn a_piece_of_json_is_kept_in_its_order_and_given_back() {
        let given = r#"{"b": [1, -2.5, null, true], "a": {"": "\u00e9\"\n"}, "b": 18446744073709551615}"#;
        let kept = r#"{"b":[1,-2.5,null,true],"a":{"":"é\"\n"},"b":18446744073709551615}"#;
        let text: JsonText = from_str(given).unwrap();
        assert_eq!((text.as_str(), to_string(&text).unwrap().as_str()), (kept, kept));
        assert_eq!(text.read::<Value>().unwrap()["a"][""], "é\"\n");
        assert_eq!(JsonText::of(&[1, 2]).unwrap().as_str(), "[1,2]");
    }

    #[test]
    fn what_is_not_json_or_nests_too_deep_is_no_piece() {
        for broken in ["", "{", r#"{"a": 1"#, "1e999", &"[".repeat(200)] {
            assert!(from_str::<JsonText>(broken).is_err(), "{broken}");
        }
    }

    /// The keys by which serde_json's features know their own: none of them may be on in this program, whoever asks for it.
    #[test]
    fn no_key_gives_json_a_second_meaning() {
        for key in ["$serde_json::private::RawValue", "$serde_json::private::Number"] {
            let text = format!(r#"{{"{key}":"[1]"}}"#);
            let value: Value = from_str(&text).unwrap();
            assert_eq!(
                value[key], "[1]",
                "a feature of serde_json reads {key}: `cargo tree -e features -i serde_json`"
            );
            assert_eq!(from_str::<JsonText>(&text).unwrap().as_str(), text);
        }
    }
}
