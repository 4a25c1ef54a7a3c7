//! The effective values for people and programs, secrets masked.

use super::effective::{Effective, Source};
use super::mask::masked;
use serde_json::{Map, Value, json};

/// `{"<key>":{"value":…,"source":"flag|env|file|default"}}`.
pub(crate) fn listed_json(effective: &Effective) -> Value {
    let fields: Map<String, Value> = listed(effective)
        .into_iter()
        .map(|(name, value, source)| (name.to_owned(), json!({"value": value, "source": source.as_str()})))
        .collect();
    Value::Object(fields)
}

/// Key, value and source, in the order of the table.
pub(crate) fn listed(effective: &Effective) -> Vec<(&'static str, Value, Source)> {
    effective
        .entries
        .iter()
        .map(|entry| (entry.key.name, masked(entry.key, &entry.value), entry.source))
        .collect()
}
