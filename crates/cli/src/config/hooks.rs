//! The blocks `hooks` and `webhooks`: their shape belongs to the server, here they are only checked and described.

use cortex_server::{Hooks, Webhooks};
use serde_json::{Map, Value, json};

/// `hooks`: webhooks that come in.
pub(crate) fn check_hooks(value: &Value) -> Result<(), String> {
    let blocks = object(value, "must be an object {\"<name>\": {key, text, …}}")?;
    Hooks::try_from(blocks).map(drop).map_err(|problem| format!("is wrong: {problem}"))
}

/// `webhooks`: webhooks that go out.
pub(crate) fn check_webhooks(value: &Value) -> Result<(), String> {
    let blocks = object(value, "must be an object {\"<name>\": {source, url, secret}}")?;
    Webhooks::try_from(blocks).map(drop).map_err(|problem| format!("is wrong: {problem}"))
}

fn object(value: &Value, wanted: &str) -> Result<Map<String, Value>, String> {
    value.as_object().cloned().ok_or_else(|| wanted.to_owned())
}

pub(crate) fn hooks_schema() -> Value {
    let text = json!({"type": "string", "minLength": 1});
    let scalar = json!({"type": ["string", "number", "boolean", "null"]});
    json!({"type": "object", "additionalProperties": {
        "type": "object",
        "additionalProperties": false,
        "required": ["text"],
        "properties": {
            "key": text,
            "hmac": {
                "type": "object",
                "additionalProperties": false,
                "required": ["secret"],
                "properties": {"secret": text, "header": text},
            },
            "secret": text,
            "text": text,
            "topic": text,
            "user": text,
            "id": text,
            "when": {"type": "object", "additionalProperties": {"anyOf": [scalar, {"type": "array", "items": scalar}]}},
            "to": {
                "type": "object",
                "additionalProperties": false,
                "required": ["source", "topic"],
                "properties": {"source": text, "topic": text},
            },
        },
    }})
}

pub(crate) fn webhooks_schema() -> Value {
    let text = json!({"type": "string", "minLength": 1});
    json!({"type": "object", "additionalProperties": {
        "type": "object",
        "additionalProperties": false,
        "required": ["source", "url", "secret"],
        "properties": {
            "source": text,
            "url": text,
            "secret": text,
            "timeoutMs": {"type": "integer", "minimum": 100, "maximum": 120_000},
            "headers": {"type": "object", "additionalProperties": {"type": "string"}},
        },
    }})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_with_a_block_is_told_behind_its_key() {
        assert_eq!(check_hooks(&json!({})), Ok(()));
        assert_eq!(check_webhooks(&json!({})), Ok(()));
        let told = check_hooks(&json!({"ci": {"key": "0123456789abcdef"}})).unwrap_err();
        assert_eq!(told, "is wrong: ci.text is required");
        let told = check_webhooks(&json!({"out": {"source": "a"}})).unwrap_err();
        assert_eq!(told, "is wrong: out.url is required");
        assert!(check_hooks(&json!([])).unwrap_err().starts_with("must be an object"));
    }
}
