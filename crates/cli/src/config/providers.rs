//! The `providers` block: its shape belongs to the models, here it is only checked and described.

use cortex_models::{Profile, ProviderSettings};
use serde_json::{Value, json};

/// Whether the block can be read, or what is wrong with it.
pub(crate) fn check(value: &Value) -> Result<(), String> {
    if !value.is_object() {
        return Err("must be an object {\"profiles\": […]}".to_owned());
    }
    // Profile by profile first: the complaint then names the one that is wrong.
    for (number, profile) in profiles(value).iter().enumerate() {
        check_profile(profile).map_err(|problem| format!("profiles[{number}] {problem}"))?;
    }
    serde_json::from_value::<ProviderSettings>(value.clone())
        .map(drop)
        .map_err(|error| format!("is wrong: {error}"))
}

/// Whether one profile can be read, or what is wrong with it.
pub(crate) fn check_profile(profile: &Value) -> Result<(), String> {
    serde_json::from_value::<Profile>(profile.clone()).map(drop).map_err(|error| format!("is wrong: {error}"))
}

pub(crate) fn profiles(value: &Value) -> &[Value] {
    value.get("profiles").and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

pub(crate) fn schema() -> Value {
    let text = json!({"type": "string", "minLength": 1});
    json!({
        "type": "object",
        "additionalProperties": false,
        "properties": {
            "profiles": {"type": "array", "items": {
                "type": "object",
                "additionalProperties": false,
                "required": ["name", "kind"],
                "properties": {
                    "name": text,
                    "kind": {"enum": ["openai", "anthropic", "google", "cli"]},
                    "baseUrl": text,
                    "apiKey": text,
                    "authToken": text,
                    "models": {
                        "type": "object",
                        "additionalProperties": false,
                        "properties": {"pro": text, "flash": text, "lite": text},
                    },
                },
            }},
            "contexts": {"type": "object"},
        },
    })
}
