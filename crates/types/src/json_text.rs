//! A piece of JSON as text: what is passed on, or read later, without ever being built.
//!
//! serde_json's own raw value is not used. Its feature gives every object with one certain key a second meaning, for every
//! program that is linked with it: the text below that key is parsed again, with a new bound of depth. Whoever may send JSON
//! could then nest without end, and show one value where another is read.

use serde::de::{DeserializeOwned, DeserializeSeed, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;

/// What nests deeper is `null`, so that nothing of it keeps the rest from being read. Below the parser's own bound, and above
/// that of every reader who refuses what nests deep.
const DEPTH_MAX: usize = 100;

/// JSON that was read once. It has no spaces, and its numbers are as Rust prints them.
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
        Copy { text: &mut text, depth: 0 }.deserialize(deserializer)?;
        let text = String::from_utf8(text).map_err(D::Error::custom)?;
        Ok(Self(text.into()))
    }
}

/// Writes down what it reads.
struct Copy<'a> {
    text: &'a mut Vec<u8>,
    depth: usize,
}

impl Copy<'_> {
    fn write<E: Error>(self, value: &(impl Serialize + ?Sized)) -> Result<(), E> {
        serde_json::to_writer(self.text, value).map_err(E::custom)
    }
}

impl<'de> DeserializeSeed<'de> for Copy<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        if self.depth < DEPTH_MAX {
            return deserializer.deserialize_any(self);
        }
        deserializer.deserialize_ignored_any(IgnoredAny)?;
        self.write(&())
    }
}

impl<'de> Visitor<'de> for Copy<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        self.write(&())
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<(), E> {
        self.write(&value)
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<(), E> {
        self.write(&value)
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<(), E> {
        self.write(&value)
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<(), E> {
        self.write(&value)
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<(), E> {
        self.write(value)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        let Self { text, depth } = self;
        text.push(b'[');
        let first = text.len();
        loop {
            let before = text.len();
            if before > first {
                text.push(b',');
            }
            if list.next_element_seed(Copy { text: &mut *text, depth: depth + 1 })?.is_none() {
                text.truncate(before);
                text.push(b']');
                return Ok(());
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<(), A::Error> {
        let Self { text, depth } = self;
        text.push(b'{');
        let first = text.len();
        loop {
            let before = text.len();
            if before > first {
                text.push(b',');
            }
            // A key is a text, whatever its depth.
            if entries.next_key_seed(Copy { text: &mut *text, depth: 0 })?.is_none() {
                text.truncate(before);
                text.push(b'}');
                return Ok(());
            }
            text.push(b':');
            entries.next_value_seed(Copy { text: &mut *text, depth: depth + 1 })?;
        }
    }
}

impl Serialize for JsonText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serde_transcode::transcode(&mut serde_json::Deserializer::from_str(&self.0), serializer)
    }
}

#[cfg(test)]
mod tests {
    use super::{DEPTH_MAX, JsonText};
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
    fn what_is_not_json_is_no_piece() {
        for broken in ["", "{", r#"{"a": 1"#, "1e999", "[1,]", &"[".repeat(200)] {
            assert!(from_str::<JsonText>(broken).is_err(), "{broken}");
        }
    }

    #[test]
    fn what_nests_too_deep_is_cut_off_and_keeps_nothing_beside_it_from_being_read() {
        let deep = format!(r#"{{"odd":{}{},"even":1}}"#, "[".repeat(100_000), "]".repeat(100_000));
        let text: JsonText = from_str(&deep).unwrap();
        assert!(text.as_str().ends_with(r#"],"even":1}"#) && text.as_str().contains("[[[null]]]"));
        assert_eq!(text.as_str().matches('[').count(), DEPTH_MAX - 1);
        assert_eq!(text.read::<Value>().unwrap()["even"], 1);
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
