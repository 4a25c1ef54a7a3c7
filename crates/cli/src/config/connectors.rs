//! The block `connectors`: which of them the server runs, and how each reaches its platform.

use cortex_connectors::GroupPolicy;
use secrecy::SecretString;
use serde::Deserialize;
use serde_json::{Value, json};

/// The connectors that have a block of their own.
pub(crate) const KNOWN_CONNECTORS: &[&str] = &["telegram", "matrix", "discord", "slack"];

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct ConnectorsBlock {
    telegram: Option<PlatformBlock>,
    matrix: Option<PlatformBlock>,
    discord: Option<PlatformBlock>,
    slack: Option<PlatformBlock>,
}

/// How a connector reaches its platform.

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct PlatformBlock {
    /// Whether the server runs it.
    pub(crate) enabled: bool,
    pub(crate) token: Option<SecretString>,
    /// Of Slack alone: the token for the socket.
    pub(crate) app_token: Option<SecretString>,
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
        let is_enabled = |name: &&&str| self.block(name).is_some_and(|block| block.enabled);
        KNOWN_CONNECTORS.iter().filter(is_enabled).copied().collect()
    }

    /// The block of a connector.
    pub(crate) fn block(&self, name: &str) -> Option<&PlatformBlock> {
        match name {
            "telegram" => self.telegram.as_ref(),
            "matrix" => self.matrix.as_ref(),
            "discord" => self.discord.as_ref(),
            "slack" => self.slack.as_ref(),
            _ => None,
        }
    }

    /// Whether a connector has a block.
    pub(crate) fn is_configured(&self, name: &str) -> bool {
        self.block(name).is_some()
    }

    pub(crate) fn secrets(&self) -> impl Iterator<Item = &SecretString> {
        let blocks = KNOWN_CONNECTORS.iter().filter_map(|name| self.block(name));
        blocks.flat_map(|block| [block.token.as_ref(), block.app_token.as_ref()]).flatten()
    }
}

pub(crate) fn check_connectors(value: &Value) -> Result<(), String> {
    let Some(blocks) = value.as_object() else {
        return Err("must be an object {\"<connector>\": {\"enabled\": true, …}}".to_owned());
    };
    let mut problems = Vec::new();
    for (name, block) in blocks {
        if !KNOWN_CONNECTORS.contains(&name.as_str()) {
            problems
                .push(format!("has an unknown connector {name}; known are {}", KNOWN_CONNECTORS.join(", ")));
            continue;
        }
        match block.as_object() {
            // One field at a time, so that every mistake is told.
            Some(fields) => {
                let wrong = fields.iter().filter_map(|(field, value)| wrong_field(name, field, value));
                problems.extend(wrong.map(|problem| format!("has a wrong {name}: {problem}")));
            }
            None => problems.push(format!("has a wrong {name}: it must be an object")),
        }
    }
    if problems.is_empty() { Ok(()) } else { Err(problems.join("; ")) }
}

/// A token is a text or wrong, without being told.
fn wrong_field(connector: &str, field: &str, value: &Value) -> Option<String> {
    if matches!(field, "token" | "appToken") && !value.is_string() {
        return Some(format!("{field} must be a text"));
    }
    if field == "appToken" && connector != "slack" {
        return Some("only slack has an appToken".to_owned());
    }
    let error =
        serde_json::from_value::<ConnectorsBlock>(json!({ connector: { field: value } })).err()?.to_string();
    let is_named = error.contains(&format!("`{field}`"));
    Some(if is_named { error } else { format!("{field}: {error}") })
}

pub(crate) fn connectors_schema() -> Value {
    let text = json!({"type": "string", "minLength": 1});
    let account = json!({"type": ["integer", "string"]});
    let block = json!({
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
    let mut blocks: serde_json::Map<String, Value> =
        KNOWN_CONNECTORS.iter().map(|name| ((*name).to_owned(), block.clone())).collect();
    if let Some(slack) = blocks.get_mut("slack") {
        slack["properties"]["appToken"] = text;
    }
    json!({"type": "object", "additionalProperties": false, "properties": blocks})
}

#[cfg(test)]
mod tests {
    use super::*;
    use secrecy::ExposeSecret;

    #[test]
    fn a_telegram_block_is_read_as_people_write_it() {
        let value = json!({"telegram": {"enabled": true, "token": "1:a", "apiUrl": "http://h/",
            "allow": [42, "43", "tg:44"], "groups": "all", "maxFileBytes": 1000}});
        assert_eq!(check_connectors(&value), Ok(()));
        let block: ConnectorsBlock = serde_json::from_value(value).unwrap();
        assert_eq!(block.enabled(), ["telegram"]);
        let ids: Vec<String> =
            block.block("telegram").unwrap().allow.iter().map(|account| account.id("tg:")).collect();
        assert_eq!(ids, ["42", "43", "44"]);
        assert!(ConnectorsBlock::default().enabled().is_empty());
    }

    #[test]
    fn every_platform_has_a_block_of_the_same_shape() {
        let value = json!({
            "matrix": {"enabled": true, "token": "m", "apiUrl": "https://h", "allow": ["@ada:h", "matrix:@bob:h"]},
            "discord": {"enabled": false, "token": "d", "allow": ["123456789012345678"]},
            "slack": {"enabled": true, "token": "xoxb-s", "appToken": "xapp-s", "allow": ["U1"]},
        });
        assert_eq!(check_connectors(&value), Ok(()));
        let block: ConnectorsBlock = serde_json::from_value(value).unwrap();
        assert_eq!(block.enabled(), ["matrix", "slack"]);
        assert!(block.is_configured("discord") && !block.is_configured("telegram"));
        let secrets: Vec<&str> = block.secrets().map(ExposeSecret::expose_secret).collect();
        assert_eq!(secrets, ["m", "d", "xoxb-s", "xapp-s"]);
        let ids: Vec<String> =
            block.block("matrix").unwrap().allow.iter().map(|account| account.id("matrix:")).collect();
        assert_eq!(ids, ["@ada:h", "@bob:h"]);
    }

    #[test]
    fn a_wrong_block_is_told_which_and_why_without_its_token() {
        for (value, expected) in [
            (json!([]), "must be an object"),
            (
                json!({"telegramm": {}}),
                "has an unknown connector telegramm; known are telegram, matrix, discord, slack",
            ),
            (json!({"telegram": {"tokn": "s3cret"}}), "has a wrong telegram: unknown field `tokn`"),
            (json!({"telegram": {"groups": "some"}}), "has a wrong telegram: groups: unknown variant `some`"),
            (json!({"telegram": {"token": ["s3cret"]}}), "has a wrong telegram: token must be a text"),
            (json!({"telegram": true}), "has a wrong telegram: "),
            (json!({"slack": {"appToken": {"x": "s3cret"}}}), "has a wrong slack: appToken must be a text"),
            (json!({"matrix": {"appToken": "s3cret"}}), "has a wrong matrix: only slack has an appToken"),
        ] {
            let told = check_connectors(&value).unwrap_err();
            assert!(told.starts_with(expected), "{value}: {told}");
            assert!(!told.contains("s3cret"), "{told}");
        }
    }
}
