//! The blocks `hooks` and `webhooks`: their shape belongs to the server, here they are only checked and described.

use cortex_server::{Hooks, Webhooks};
use serde_json::{Map, Value, json};

/// A key that is long enough, where only other fields are looked at.
const A_KEY: &str = "0123456789abcdef0123456789abcdef";

/// `hooks`: webhooks that come in.
pub(crate) fn check_hooks(value: &Value) -> Result<(), String> {
    let blocks = object(value, "must be an object {\"<name>\": {key, text, …}}")?;
    let wrong = |name: &str, block: Value| {
        Hooks::try_from(Map::from_iter([(name.to_owned(), block)])).map(drop).err()
    };
    let mut problems = Vec::new();
    for (name, block) in &blocks {
        problems.extend(wrong(name, block.clone()));
        // A hook is read up to its first mistake, so each field is tried once more in a hook that is fine without it.
        let fields = block.as_object().into_iter().flatten();
        let provers = ["key", "hmac", "secret"];
        let has_proof =
            block.as_object().is_some_and(|block| provers.iter().any(|name| block.contains_key(*name)));
        let proven = block.as_object().filter(|_| !has_proof).map(|block| {
            let mut proven = block.clone();
            proven.insert("key".to_owned(), json!(A_KEY));
            Value::Object(proven)
        });
        problems.extend(proven.and_then(|block| wrong(name, block)));
        for (field, value) in fields {
            let mut fine = json!({"key": A_KEY, "text": "x"});
            fine[field] = value.clone();
            problems.extend(wrong(name, fine));
        }
    }
    told(problems)
}

/// `webhooks`: webhooks that go out.
pub(crate) fn check_webhooks(value: &Value) -> Result<(), String> {
    let blocks = object(value, "must be an object {\"<name>\": {source, url, secret}}")?;
    let wrong = |(name, block)| Webhooks::try_from(Map::from_iter([(name, block)])).map(drop).err();
    told(blocks.into_iter().filter_map(wrong).collect())
}

/// All problems in one line, each once.
fn told(problems: Vec<String>) -> Result<(), String> {
    let mut once: Vec<String> = Vec::new();
    for problem in problems {
        if !once.contains(&problem) {
            once.push(problem);
        }
    }
    if once.is_empty() { Ok(()) } else { Err(format!("is wrong: {}", once.join("; "))) }
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
