//! JSON as schemas and arguments are read: objects are sorted, so that equal ones have equal bytes.

use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Number;
use std::collections::BTreeMap;
use std::fmt;

/// One value.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Json {
    Null,
    Bool(bool),
    Number(Number),
    Text(String),
    List(Vec<Json>),
    Object(BTreeMap<String, Json>),
}

impl Json {
    /// How deep it nests; a plain value is 1 deep. The parser's own bound keeps the recursion short.
    pub(super) fn depth(&self) -> usize {
        match self {
            Self::Null | Self::Bool(_) | Self::Number(_) | Self::Text(_) => 1,
            Self::List(items) => 1 + items.iter().map(Self::depth).max().unwrap_or(0),
            Self::Object(fields) => 1 + fields.values().map(Self::depth).max().unwrap_or(0),
        }
    }

    pub(super) fn get(&self, key: &str) -> Option<&Self> {
        match self {
            Self::Object(fields) => fields.get(key),
            Self::Null | Self::Bool(_) | Self::Number(_) | Self::Text(_) | Self::List(_) => None,
        }
    }

    /// What a JSON pointer such as `/$defs/city` leads to.
    pub(super) fn at(&self, pointer: &str) -> Option<&Self> {
        let mut here = self;
        for part in pointer.strip_prefix('/')?.split('/') {
            let part = part.replace("~1", "/").replace("~0", "~");
            here = match here {
                Self::Object(fields) => fields.get(&part)?,
                Self::List(items) => items.get(part.parse::<usize>().ok()?)?,
                Self::Null | Self::Bool(_) | Self::Number(_) | Self::Text(_) => return None,
            };
        }
        Some(here)
    }
}

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null => serializer.serialize_unit(),
            Self::Bool(value) => serializer.serialize_bool(*value),
            Self::Number(value) => value.serialize(serializer),
            Self::Text(value) => serializer.serialize_str(value),
            Self::List(items) => items.serialize(serializer),
            Self::Object(fields) => fields.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Reader)
    }
}

struct Reader;

impl<'de> Visitor<'de> for Reader {
    type Value = Json;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Json, E> {
        Ok(Json::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Json, E> {
        Ok(Json::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Json, E> {
        Ok(Json::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Json, E> {
        Ok(Json::Number(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Json, E> {
        Ok(Number::from_f64(value).map_or(Json::Null, Json::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Json, E> {
        Ok(Json::Text(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Json, E> {
        Ok(Json::Text(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Json, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = list.next_element()? {
            items.push(item);
        }
        Ok(Json::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Json, A::Error> {
        let mut fields = BTreeMap::new();
        while let Some((key, value)) = map.next_entry()? {
            fields.insert(key, value);
        }
        Ok(Json::Object(fields))
    }
}
