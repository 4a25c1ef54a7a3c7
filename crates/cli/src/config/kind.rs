//! What a value may be: checked the same way whether it came from the file, a variable or a flag.

use super::mask::told_without_secrets;
use super::{blocks, channels, connectors, hooks, host_address, providers};
use serde_json::{Map, Value, json};

/// The kinds of values.
#[derive(Debug)]
pub(crate) enum Kind {
    Text,
    /// Text that is never shown.
    Secret,
    Host,
    Integer {
        min: i64,
        max: i64,
    },
    /// Out of range is moved to the nearest end (D1).
    Clamped {
        min: i64,
        max: i64,
    },
    Flag,
    Choice(&'static [&'static str]),
    /// An http or https address, or `off`.
    Url,
    TimeZone,
    Path,
    TextList,
    Providers,
    HostPorts,
    McpServers,
    Calendars,
    Embedding,
    SkillConfig,
    AllowLocal,
    Connectors,
    Channels,
    Hippocampus,
    Approvals,
    Identities,
    Hooks,
    Webhooks,
}

impl Kind {
    /// The value to use, or what is wrong with it, as a phrase that goes after the key's name and repeats no secret.
    pub(crate) fn check(&self, value: &Value) -> Result<Value, String> {
        self.judge(value).map_err(|problem| told_without_secrets(&problem, value))
    }

    fn judge(&self, value: &Value) -> Result<Value, String> {
        let fits = match self {
            Self::Text | Self::Secret | Self::Path => {
                value.as_str().is_some_and(|text| !text.trim().is_empty())
            }
            Self::Host => value.as_str().is_some_and(|text| host_address(text).is_some()),
            Self::Integer { min, max } => {
                value.as_i64().is_some_and(|number| (*min..=*max).contains(&number))
            }
            Self::Clamped { min, max } => match value.as_i64() {
                Some(number) => return Ok(json!(number.clamp(*min, *max))),
                None => false,
            },
            Self::Flag => value.is_boolean(),
            Self::Choice(words) => value.as_str().is_some_and(|text| words.contains(&text)),
            Self::Url => value.as_str().is_some_and(|text| text == "off" || is_http_url(text)),
            Self::TimeZone => value.as_str().is_some_and(|text| jiff::tz::TimeZone::get(text).is_ok()),
            Self::TextList => value.as_array().is_some_and(|items| items.iter().all(is_text)),
            Self::Providers => return providers::check(value).map(|()| value.clone()),
            Self::HostPorts => return blocks::check_host_ports(value).map(|()| value.clone()),
            Self::McpServers => return blocks::check_mcp_servers(value).map(|()| value.clone()),
            Self::Calendars => return blocks::check_calendars(value).map(|()| value.clone()),
            Self::Embedding => return blocks::check_embedding(value).map(|()| value.clone()),
            Self::SkillConfig => return blocks::check_skill_config(value).map(|()| value.clone()),
            Self::AllowLocal => return blocks::check_allow_local(value).map(|()| value.clone()),
            Self::Connectors => return connectors::check_connectors(value).map(|()| value.clone()),
            Self::Channels => return channels::check_channels(value).map(|()| value.clone()),
            Self::Hippocampus => return channels::check_hippocampus(value).map(|()| value.clone()),
            Self::Approvals => return channels::check_approvals(value).map(|()| value.clone()),
            Self::Identities => return channels::check_identities(value).map(|()| value.clone()),
            Self::Hooks => return hooks::check_hooks(value).map(|()| value.clone()),
            Self::Webhooks => return hooks::check_webhooks(value).map(|()| value.clone()),
        };
        if fits {
            Ok(value.clone())
        } else {
            Err(format!("must be {}, not {}", self.expected(), self.shown(value)))
        }
    }

    /// Reads the text of a variable, a flag or a `${VAR}`.
    pub(crate) fn check_text(&self, text: &str) -> Result<Value, String> {
        let read = match self {
            Self::Text
            | Self::Secret
            | Self::Host
            | Self::Choice(_)
            | Self::Url
            | Self::TimeZone
            | Self::Path => {
                json!(text)
            }
            Self::Integer { .. } | Self::Clamped { .. } => match text.trim().parse::<i64>() {
                Ok(number) => json!(number),
                Err(_) => json!(text),
            },
            Self::Flag => match text.trim() {
                "true" | "1" | "yes" | "on" => json!(true),
                "false" | "0" | "no" | "off" => json!(false),
                _ => json!(text),
            },
            Self::TextList | Self::HostPorts => match serde_json::from_str::<Value>(text) {
                Ok(list @ Value::Array(_)) => list,
                Ok(_) | Err(_) => {
                    text.split(',').map(str::trim).filter(|item| !item.is_empty()).map(Value::from).collect()
                }
            },
            Self::Providers
            | Self::McpServers
            | Self::Calendars
            | Self::Embedding
            | Self::SkillConfig
            | Self::AllowLocal
            | Self::Connectors
            | Self::Channels
            | Self::Hippocampus
            | Self::Approvals
            | Self::Identities
            | Self::Hooks
            | Self::Webhooks => serde_json::from_str(text).unwrap_or_else(|_| json!(text)),
        };
        self.check(&read)
    }

    pub(crate) fn expected(&self) -> String {
        match self {
            Self::Text | Self::Secret => "a non-empty string".to_owned(),
            Self::Path => "a path".to_owned(),
            Self::Host => "an IP address or \"localhost\"".to_owned(),
            Self::Integer { min, max } => format!("an integer from {min} to {max}"),
            Self::Clamped { .. } => "an integer".to_owned(),
            Self::Flag => "true or false".to_owned(),
            Self::Choice(words) => format!("one of {}", words.join(", ")),
            Self::Url => "an http:// or https:// address or \"off\"".to_owned(),
            Self::TimeZone => "an IANA time zone such as \"UTC\" or \"Europe/Berlin\"".to_owned(),
            Self::TextList => "a list of non-empty strings".to_owned(),
            Self::Providers => "an object {\"profiles\": […]}".to_owned(),
            Self::HostPorts => "a list of \"host:port\"".to_owned(),
            Self::McpServers => "an object of MCP servers by name".to_owned(),
            Self::Calendars => "an object {\"<name>\": \"<file or address>\"}".to_owned(),
            Self::Embedding => "an object {\"baseUrl\": …, \"model\": …}".to_owned(),
            Self::SkillConfig => "an object {\"<skill>\": {…}}".to_owned(),
            Self::AllowLocal => "an object {\"allowLocal\": true or false}".to_owned(),
            Self::Connectors => "an object {\"<connector>\": {\"enabled\": true, …}}".to_owned(),
            Self::Channels => "an object {\"<channel>\": \"off\", \"shadow\" or \"live\"}".to_owned(),
            Self::Hippocampus => "an object {\"enabled\": true or false}".to_owned(),
            Self::Approvals => "an object {\"bareWords\": true or false}".to_owned(),
            Self::Identities => "an object {\"<name>\": [\"<userId>\", …]}".to_owned(),
            Self::Hooks => "an object {\"<name>\": {key, text, …}}".to_owned(),
            Self::Webhooks => "an object {\"<name>\": {source, url, secret}}".to_owned(),
        }
    }

    /// The JSON Schema of a value.
    pub(crate) fn schema(&self) -> Map<String, Value> {
        let schema = match self {
            Self::Text | Self::Secret | Self::Path => json!({"type": "string", "minLength": 1}),
            Self::Host | Self::TimeZone => json!({"type": "string"}),
            Self::Integer { min, max } => json!({"type": "integer", "minimum": min, "maximum": max}),
            Self::Clamped { .. } => json!({"type": "integer"}),
            Self::Flag => json!({"type": "boolean"}),
            Self::Choice(words) => json!({"enum": words}),
            Self::Url => json!({"type": "string", "pattern": "^(off|https?://.+|.*\\$\\{.+)$"}),
            Self::TextList | Self::HostPorts => {
                json!({"type": "array", "items": {"type": "string", "minLength": 1}})
            }
            Self::McpServers => blocks::mcp_servers_schema(),
            Self::Calendars => json!({"type": "object", "additionalProperties": {"type": "string"}}),
            Self::Embedding => blocks::embedding_schema(),
            Self::SkillConfig => json!({"type": "object", "additionalProperties": {"type": "object"}}),
            Self::Connectors => connectors::connectors_schema(),
            Self::AllowLocal => json!({
                "type": "object",
                "additionalProperties": false,
                "properties": {"allowLocal": {"type": "boolean"}},
            }),
            Self::Channels => channels::channels_schema(),
            Self::Hippocampus => json!({
                "type": "object",
                "additionalProperties": false,
                "required": ["enabled"],
                "properties": {"enabled": {"type": "boolean"}},
            }),
            Self::Approvals => json!({
                "type": "object",
                "additionalProperties": false,
                "properties": {"bareWords": {"type": "boolean"}},
            }),
            Self::Identities => channels::identities_schema(),
            Self::Hooks => hooks::hooks_schema(),
            Self::Webhooks => hooks::webhooks_schema(),
            Self::Providers => providers::schema(),
        };
        schema.as_object().cloned().unwrap_or_default()
    }

    /// The range as the reference page shows it.
    pub(crate) fn documented(&self) -> String {
        match self {
            Self::Text => "string".to_owned(),
            Self::Secret => "string, secret".to_owned(),
            Self::Path => "path".to_owned(),
            Self::Host => "IP address or `localhost`".to_owned(),
            Self::Integer { min, max } => format!("integer, {min} to {max}"),
            Self::Clamped { min, max } => format!("integer, clamped to {min} to {max}"),
            Self::Flag => "`true` or `false`".to_owned(),
            Self::Choice(words) => {
                words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
            }
            Self::Url => "address or `off`".to_owned(),
            Self::TimeZone => "IANA time zone".to_owned(),
            Self::TextList => "list of strings".to_owned(),
            Self::HostPorts => "list of `host:port`".to_owned(),
            Self::Providers
            | Self::McpServers
            | Self::Calendars
            | Self::Embedding
            | Self::SkillConfig
            | Self::AllowLocal
            | Self::Connectors
            | Self::Channels
            | Self::Hippocampus
            | Self::Approvals
            | Self::Identities
            | Self::Hooks
            | Self::Webhooks => "object".to_owned(),
        }
    }

    /// The value as an error may show it.
    fn shown(&self, value: &Value) -> String {
        let name = match value {
            Value::Null => return "null".to_owned(),
            Value::Object(_) => return "an object".to_owned(),
            Value::Array(_) => return "this list".to_owned(),
            Value::String(text) if text.trim().is_empty() => return "an empty string".to_owned(),
            Value::Bool(_) => "a boolean",
            Value::Number(_) => "a number",
            Value::String(_) => "this string",
        };
        match self {
            // Never echo what may be half of a key or a password.
            Self::Secret
            | Self::Url
            | Self::Providers
            | Self::McpServers
            | Self::Calendars
            | Self::Embedding
            | Self::SkillConfig
            | Self::AllowLocal
            | Self::Connectors
            | Self::Channels
            | Self::Hippocampus
            | Self::Approvals
            | Self::Identities
            | Self::Hooks
            | Self::Webhooks => name.to_owned(),
            Self::Text
            | Self::Host
            | Self::Integer { .. }
            | Self::Clamped { .. }
            | Self::Flag
            | Self::Choice(_)
            | Self::TimeZone
            | Self::Path
            | Self::TextList
            | Self::HostPorts => value.to_string().chars().take(60).collect(),
        }
    }
}

fn is_text(value: &Value) -> bool {
    value.as_str().is_some_and(|text| !text.trim().is_empty())
}

fn is_http_url(text: &str) -> bool {
    reqwest::Url::parse(text).is_ok_and(|url| matches!(url.scheme(), "http" | "https") && url.has_host())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(kind: &Kind, text: &str, expected: &str) {
        let seen = match kind.check_text(text) {
            Ok(value) => value.to_string(),
            Err(problem) => problem,
        };
        assert_eq!(seen, expected);
    }

    #[test]
    fn text_is_read_by_the_kind_of_its_key() {
        check(&Kind::Integer { min: 1, max: 5 }, " 5 ", "5");
        check(&Kind::Integer { min: 1, max: 5 }, "6", "must be an integer from 1 to 5, not 6");
        check(&Kind::Integer { min: 1, max: 5 }, "5.0", "must be an integer from 1 to 5, not \"5.0\"");
        check(&Kind::Clamped { min: 1, max: 5 }, "-3", "1");
        check(&Kind::Clamped { min: 1, max: 5 }, "x", "must be an integer, not \"x\"");
        check(&Kind::Flag, "yes", "true");
        check(&Kind::Flag, "maybe", "must be true or false, not \"maybe\"");
        check(&Kind::TextList, "a, b ,", r#"["a","b"]"#);
        check(&Kind::TextList, r#"["a,b"]"#, r#"["a,b"]"#);
        check(&Kind::Choice(&["a", "b"]), "c", "must be one of a, b, not \"c\"");
        check(&Kind::TimeZone, "Europe/Berlin", "\"Europe/Berlin\"");
        check(
            &Kind::TimeZone,
            "Mars/Olympus",
            "must be an IANA time zone such as \"UTC\" or \"Europe/Berlin\", not \"Mars/Olympus\"",
        );
        check(&Kind::Host, "example.org", "must be an IP address or \"localhost\", not \"example.org\"");
        check(&Kind::Url, "off", "\"off\"");
    }

    #[test]
    fn a_bad_secret_or_address_is_not_echoed() {
        check(
            &Kind::Url,
            "ftp://me:hunter2@x",
            "must be an http:// or https:// address or \"off\", not this string",
        );
        assert_eq!(
            Kind::Secret.check(&json!(12345)),
            Err("must be a non-empty string, not a number".to_owned())
        );
    }
}
