//! The JSON Schema of `server.json`.

use super::table::{Fallback, KEYS};
use serde_json::{Map, Value, json};

pub(crate) fn schema() -> Value {
    let mut properties = Map::new();
    properties.insert("$schema".to_owned(), json!({"type": "string"}));
    for key in KEYS {
        let mut property = key.kind.schema();
        property.insert("description".to_owned(), json!(key.help));
        match key.default {
            Fallback::Unset => {}
            Fallback::Text(_)
            | Fallback::Integer(_)
            | Fallback::Flag(_)
            | Fallback::EmptyList
            | Fallback::EmptyObject => {
                property.insert("default".to_owned(), key.default_value());
            }
        }
        properties.insert(key.name.to_owned(), Value::Object(property));
    }
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Cortex server.json",
        "type": "object",
        "additionalProperties": false,
        "properties": properties,
    })
}
