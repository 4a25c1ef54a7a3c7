//! Reads what is wanted of others' JSON and skips the rest: small values take many times their text once they are built.

use serde::de::value::{self, MapAccessDeserializer};
use serde::de::{
    Deserialize, DeserializeOwned, Deserializer, Error, IgnoredAny, IntoDeserializer, MapAccess, SeqAccess,
    Visitor,
};
use std::fmt;
use std::marker::PhantomData;

/// A value of its type, or nothing where something else stands.
#[derive(Debug)]
pub(crate) struct Loose<T>(pub(crate) Option<T>);

impl<T> Default for Loose<T> {
    fn default() -> Self {
        Self(None)
    }
}

/// It is read as it comes, so that what is passed over costs nothing.
impl<'de, T: DeserializeOwned> Deserialize<'de> for Loose<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(LooseVisitor(PhantomData)).map(Self)
    }
}

struct LooseVisitor<T>(PhantomData<T>);

impl<'de, T: DeserializeOwned> Visitor<'de> for LooseVisitor<T> {
    type Value = Option<T>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "any value")
    }

    fn visit_unit<E: Error>(self) -> Result<Option<T>, E> {
        Ok(from_one(()))
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Option<T>, E> {
        Ok(from_one(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Option<T>, E> {
        Ok(from_one(value))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Option<T>, E> {
        Ok(from_one(value))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Option<T>, E> {
        Ok(from_one(value))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Option<T>, E> {
        Ok(from_one(value))
    }

    fn visit_string<E: Error>(self, value: String) -> Result<Option<T>, E> {
        Ok(from_one(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Option<T>, A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(None)
    }

    /// A field that is of another type must be loose itself: what breaks off in the middle of one breaks all of it.
    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Option<T>, A::Error> {
        if let Ok(read) = T::deserialize(MapAccessDeserializer::new(&mut entries)) {
            return Ok(Some(read));
        }
        while entries.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(None)
    }
}

fn from_one<'de, T: Deserialize<'de>>(value: impl IntoDeserializer<'de, value::Error>) -> Option<T> {
    T::deserialize(value.into_deserializer()).ok()
}

/// The first of a list.
#[derive(Debug)]
pub(crate) struct First<T>(pub(crate) Option<T>);

impl<T> Default for First<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<'de, T: DeserializeOwned> Deserialize<'de> for First<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let list = List { most: 1, rest: Rest::Skipped, of: PhantomData };
        deserializer.deserialize_seq(list).map(|mut items| Self(items.pop()))
    }
}

/// The first so many of a list that are of their type.
#[derive(Debug)]
pub(crate) struct FirstOf<T, const MOST: usize>(pub(crate) Vec<T>);

impl<T, const MOST: usize> Default for FirstOf<T, MOST> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'de, T: DeserializeOwned, const MOST: usize> Deserialize<'de> for FirstOf<T, MOST> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let list = List { most: MOST, rest: Rest::OnlyReadable, of: PhantomData };
        deserializer.deserialize_seq(list).map(Self)
    }
}

/// A list of at most so many; a longer one is an error.
#[derive(Debug)]
pub(crate) struct AtMost<T, const MOST: usize>(pub(crate) Vec<T>);

impl<T, const MOST: usize> Default for AtMost<T, MOST> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'de, T: DeserializeOwned, const MOST: usize> Deserialize<'de> for AtMost<T, MOST> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let list = List { most: MOST, rest: Rest::Refused, of: PhantomData };
        deserializer.deserialize_seq(list).map(Self)
    }
}

/// What becomes of what is not kept.
#[derive(Clone, Copy)]
enum Rest {
    /// Beyond the bound it is skipped.
    Skipped,
    /// Beyond the bound and of another type it is skipped.
    OnlyReadable,
    /// Beyond the bound it is an error.
    Refused,
}

struct List<T> {
    most: usize,
    rest: Rest,
    of: PhantomData<T>,
}

impl<'de, T: DeserializeOwned> Visitor<'de> for List<T> {
    type Value = Vec<T>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<T>, A::Error> {
        let mut items = Vec::new();
        while items.len() < self.most {
            let next = match self.rest {
                Rest::Skipped | Rest::Refused => list.next_element()?.map(|item| Loose(Some(item))),
                Rest::OnlyReadable => list.next_element()?,
            };
            let Some(Loose(item)) = next else { return Ok(items) };
            items.extend(item);
        }
        while list.next_element::<IgnoredAny>()?.is_some() {
            if let Rest::Refused = self.rest {
                return Err(A::Error::custom(format!("a list is longer than {}", self.most)));
            }
        }
        Ok(items)
    }
}

/// Any object, of which nothing is kept.
pub(crate) struct AnyObject;

impl<'de> Deserialize<'de> for AnyObject {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(AnyObject)
    }
}

impl<'de> Visitor<'de> for AnyObject {
    type Value = Self;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Self, A::Error> {
        while entries.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(self)
    }
}

/// How many values a text of JSON has, or a few more: their marks outside of strings are counted.
pub(crate) fn values_in(json: &str) -> usize {
    let (mut in_string, mut escaped, mut values) = (false, false, 1);
    for byte in json.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b'{' | b'[' | b',' if !in_string => values += 1,
            _ => {}
        }
    }
    values
}

#[cfg(test)]
mod tests {
    use super::{AnyObject, AtMost, First, FirstOf, Loose, values_in};
    use serde_json::from_str;

    #[test]
    fn a_list_gives_what_is_wanted_and_skips_or_refuses_the_rest() {
        let odd = r#"[1, 2, {"": [[]]}, "x"]"#;
        assert_eq!(from_str::<First<u8>>(odd).unwrap().0, Some(1));
        assert_eq!(from_str::<First<u8>>("[]").unwrap().0, None);
        assert_eq!(from_str::<FirstOf<u8, 2>>("[{}, 1, [], 2, 3, {}]").unwrap().0, [1, 2]);
        assert_eq!(from_str::<AtMost<u8, 2>>("[1, 2]").unwrap().0, [1, 2]);
        assert!(from_str::<AtMost<u8, 2>>(odd).is_err());
        assert!(from_str::<First<u8>>("{}").is_err() && from_str::<First<u8>>("[1").is_err());
    }

    #[test]
    fn what_is_of_another_type_is_nothing_and_does_no_harm() {
        let numbers: Vec<Loose<u64>> = from_str(r#"[1, "1", -1, 1.5, null, {"": 0}]"#).unwrap();
        assert_eq!(
            numbers.iter().map(|number| number.0).collect::<Vec<_>>(),
            [Some(1), None, None, None, None, None]
        );
        assert!(from_str::<AnyObject>(r#" {"a": [{}], "": 0} "#).is_ok());
        assert!(from_str::<AnyObject>(r#"{"a": 1"#).is_err() && from_str::<AnyObject>("[]").is_err());
    }

    #[test]
    fn values_are_counted_outside_of_strings() {
        assert_eq!(values_in("1"), 1);
        assert_eq!(values_in(r#"{"a,[{\",": [1, 2]}"#), 4);
        assert!(values_in(&"{},".repeat(1_000)) >= 1_000);
    }
}
