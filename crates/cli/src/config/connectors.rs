//! The block `connectors`: which of them the server runs, and how each reaches its platform.

use cortex_connectors::GroupPolicy;
use secrecy::SecretString;
use serde::Deserialize;
use serde_json::{Value, json};

/// The connectors that have a block of their own.
pub(crate) const KNOWN_CONNECTORS: &[&str] = &["telegram"];

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct ConnectorsBlock {
    pub(crate) telegram: Option<TelegramBlock>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct TelegramBlock {
    /// Whether the server runs it.
    pub(crate) enabled: bool,
    pub(crate) token: Option<SecretString>,
    pub(crate) api_url: Option<String>,
    pub(crate) allow: Vec<Account>,
    pub(crate) groups: GroupPolicy,
    pub(crate) max_file_bytes: Option<u64>,
}

/// A user id, as people write it: `42`, `"42"` or `"tg:42"`.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub(crate) enum Account {
    Number(i64),
    Text(String),
}

impl Account {
    /// The id without the prefix that it has in Cortex.
    pub(crate) fn id(&self, prefix: &str) -> String {
        match self {
            Self::Number(number) => number.to_string(),
            Self::Text(text) => text.trim().strip_prefix(prefix).unwrap_or(text.trim()).to_owned(),
        }
    }
}

impl ConnectorsBlock {
    /// The connectors that the server runs.
    pub(crate) fn enabled(&self) -> Vec<&'static str> {
        let telegram = self.telegram.as_ref().is_some_and(|block| block.enabled);
        [("telegram", telegram)].into_iter().filter(|(_, enabled)| *enabled).map(|(name, _)| name).collect()
    }

    /// Whether a connector has a block.
    pub(crate) fn is_configured(&self, name: &str) -> bool {
        match name {
            "telegram" => self.telegram.is_some(),
            _ => false,
        }
    }

    pub(crate) fn secrets(&self) -> impl Iterator<Item = &SecretString> {
        self.telegram.iter().filter_map(|block| block.token.as_ref())
    }
}

pub(crate) fn check_connectors(value: &Value) -> Result<(), String> {
    let Some(blocks) = value.as_object() else {
        return Err("must be an object {\"<connector>\": {\"enabled\": true, …}}".to_owned());
    };
    if let Some(name) = blocks.keys().find(|name| !KNOWN_CONNECTORS.contains(&name.as_str())) {
        return Err(format!("has an unknown connector {name}; known are {}", KNOWN_CONNECTORS.join(", ")));
    }
    for (name, block) in blocks {
        // One block at a time, so that the error names it; a token is a text or wrong without being told.
        let one = json!({ name: block });
        if block.get("token").is_some_and(|token| !token.is_string()) {
            return Err(format!("has a wrong {name}: token must be a text"));
        }
        serde_json::from_value::<ConnectorsBlock>(one)
            .map_err(|error| format!("has a wrong {name}: {error}"))?;
    }
    Ok(())
}

pub(crate) fn connectors_schema() -> Value {
    let text = json!({"type": "string", "minLength": 1});
    let account = json!({"type": ["integer", "string"]});
    let telegram = json!({
        "type": "object",
        "additionalProperties": false,
        "properties": {
            "enabled": {"type": "boolean"},
            "token": text,
            "apiUrl": text,
            "allow": {"type": "array", "items": account},
            "groups": {"enum": ["mention", "all", "off"]},
            "maxFileBytes": {"type": "integer", "minimum": 0},
        },
    });
    json!({"type": "object", "additionalProperties": false, "properties": {"telegram": telegram}})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_telegram_block_is_read_as_people_write_it() {
        let value = json!({"telegram": {"enabled": true, "token": "1:a", "apiUrl": "http://h/",
            "allow": [42, "43", "tg:44"], "groups": "all", "maxFileBytes": 1000}});
        assert_eq!(check_connectors(&value), Ok(()));
        let block: ConnectorsBlock = serde_json::from_value(value).unwrap();
        assert_eq!(block.enabled(), ["telegram"]);
        let ids: Vec<String> =
            block.telegram.unwrap().allow.iter().map(|account| account.id("tg:")).collect();
        assert_eq!(ids, ["42", "43", "44"]);
        assert!(ConnectorsBlock::default().enabled().is_empty());
    }

    #[test]
    fn a_wrong_block_is_told_which_and_why_without_its_token() {
        for (value, expected) in [
            (json!([]), "must be an object"),
            (json!({"telegramm": {}}), "has an unknown connector telegramm; known are telegram"),
            (json!({"telegram": {"tokn": "s3cret"}}), "has a wrong telegram: unknown field `tokn`"),
            (json!({"telegram": {"groups": "some"}}), "has a wrong telegram: unknown variant `some`"),
            (json!({"telegram": {"token": ["s3cret"]}}), "has a wrong telegram: token must be a text"),
            (json!({"telegram": true}), "has a wrong telegram: "),
        ] {
            let told = check_connectors(&value).unwrap_err();
            assert!(told.starts_with(expected), "{value}: {told}");
            assert!(!told.contains("s3cret"), "{told}");
        }
    }
}
