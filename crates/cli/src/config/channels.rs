//! The blocks about channels and people: `channels`, `hippocampus`, `approvals`, `identities`.

use cortex_types::{ChannelMode, ChannelSetting};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// What `channels` may say of one channel: a mode, or more.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub(crate) enum ChannelEntry {
    Mode(ChannelMode),
    Full(FullEntry),
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FullEntry {
    mode: ChannelMode,
    topic: Option<String>,
}

impl From<ChannelEntry> for ChannelSetting {
    fn from(entry: ChannelEntry) -> Self {
        match entry {
            ChannelEntry::Mode(mode) => Self { mode, topic: None },
            ChannelEntry::Full(FullEntry { mode, topic }) => Self { mode, topic },
        }
    }
}

/// `hippocampus`.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Hippocampus {
    pub(crate) enabled: bool,
}

/// `approvals`.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "camelCase")]
pub(crate) struct Approvals {
    pub(crate) bare_words: bool,
}

pub(crate) const MODES: &[&str] = &["off", "shadow", "live"];

/// Every channel has a mode, and a topic is a text.
pub(crate) fn check_channels(value: &Value) -> Result<(), String> {
    let channels = value.as_object().ok_or("must be an object {\"<channel>\": \"live\"}")?;
    for (name, entry) in channels {
        if name.trim().is_empty() {
            return Err("has a channel without a name".to_owned());
        }
        if serde_json::from_value::<ChannelEntry>(entry.clone()).is_err() {
            let wanted = "off, shadow, live or {\"mode\": …, \"topic\": …}";
            return Err(format!("has a wrong {name}: {entry} is not one of {wanted}"));
        }
    }
    Ok(())
}

pub(crate) fn check_hippocampus(value: &Value) -> Result<(), String> {
    let read = serde_json::from_value::<Hippocampus>(value.clone());
    read.map(drop).map_err(|_| "must be an object {\"enabled\": true or false}".to_owned())
}

pub(crate) fn check_approvals(value: &Value) -> Result<(), String> {
    let read = serde_json::from_value::<Approvals>(value.clone());
    read.map(drop).map_err(|_| "must be an object {\"bareWords\": true or false}".to_owned())
}

/// Nobody is two people.
pub(crate) fn check_identities(value: &Value) -> Result<(), String> {
    let wrong = || "must be an object {\"<name>\": [\"<userId>\", …]}".to_owned();
    let mut seen = BTreeSet::new();
    for accounts in value.as_object().ok_or_else(wrong)?.values() {
        for account in accounts.as_array().ok_or_else(wrong)? {
            let account = account.as_str().filter(|text| !text.trim().is_empty()).ok_or_else(wrong)?;
            if !seen.insert(account) {
                return Err(format!("names {account} twice"));
            }
        }
    }
    Ok(())
}

pub(crate) fn channels_schema() -> Value {
    let mode = json!({"enum": MODES});
    let full = json!({
        "type": "object",
        "additionalProperties": false,
        "required": ["mode"],
        "properties": {"mode": mode, "topic": {"type": "string", "minLength": 1}},
    });
    json!({"type": "object", "additionalProperties": {"anyOf": [mode, full]}})
}

pub(crate) fn identities_schema() -> Value {
    let accounts = json!({"type": "array", "items": {"type": "string", "minLength": 1}});
    json!({"type": "object", "additionalProperties": accounts})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_channel_is_a_mode_or_a_mode_with_a_topic() {
        let good = json!({"webchat": "live", "x": {"mode": "shadow", "topic": "123"}, "y": {"mode": "off"}});
        assert_eq!(check_channels(&good), Ok(()));
        for bad in [
            json!("live"),
            json!({"x": "on"}),
            json!({"x": {"topic": "1"}}),
            json!({"x": {"mode": "live", "t": 1}}),
        ] {
            assert!(check_channels(&bad).is_err(), "{bad}");
        }
        let problem = check_channels(&json!({"x": "loud"})).unwrap_err();
        assert!(problem.starts_with("has a wrong x: \"loud\" is not one of off, shadow, live"), "{problem}");
    }

    #[test]
    fn nobody_is_two_people() {
        assert_eq!(check_identities(&json!({"ada": ["tg:1", "web:ada"], "bob": []})), Ok(()));
        let twice = json!({"ada": ["tg:1"], "bob": ["tg:1"]});
        assert_eq!(check_identities(&twice), Err("names tg:1 twice".to_owned()));
        assert!(check_identities(&json!({"ada": "tg:1"})).is_err());
    }
}
