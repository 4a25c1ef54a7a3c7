//! Blocks whose shape belongs to the tools and the models; here they are only checked and described.

use cortex_models::EmbeddingSettings;
use cortex_tools::{CalendarSource, HostPort, McpServers};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// `egressAllow`: every entry is a host with a port.
pub(crate) fn check_host_ports(value: &Value) -> Result<(), String> {
    let wrong = || "must be a list of \"host:port\"".to_owned();
    for item in value.as_array().ok_or_else(wrong)? {
        let text = item.as_str().ok_or_else(wrong)?;
        text.parse::<HostPort>().map_err(|error| format!("is wrong: {error}"))?;
    }
    Ok(())
}

/// `mcpServers`, as every MCP client writes it.
pub(crate) fn check_mcp_servers(value: &Value) -> Result<(), String> {
    if !value.is_object() {
        return Err("must be an object {\"<name>\": {\"command\": …} or {\"url\": …}}".to_owned());
    }
    serde_json::from_value::<McpServers>(value.clone())
        .map(drop)
        .map_err(|error| format!("is wrong: {error}"))
}

/// `calendars`: names with a file or an address.
pub(crate) fn check_calendars(value: &Value) -> Result<(), String> {
    let read = serde_json::from_value::<BTreeMap<String, String>>(value.clone());
    let calendars = read.map_err(|_| "must be an object {\"<name>\": \"<file or address>\"}".to_owned())?;
    for (name, place) in &calendars {
        CalendarSource::new(name, place).map_err(|error| format!("is wrong: {error}"))?;
    }
    Ok(())
}

/// `embedding`: where vectors come from.
pub(crate) fn check_embedding(value: &Value) -> Result<(), String> {
    if !value.is_object() {
        return Err("must be an object {\"baseUrl\": …, \"model\": …}".to_owned());
    }
    serde_json::from_value::<EmbeddingSettings>(value.clone())
        .map(drop)
        .map_err(|error| format!("is wrong: {error}"))
}

pub(crate) fn embedding_schema() -> Value {
    let text = json!({"type": "string", "minLength": 1});
    json!({
        "type": "object",
        "additionalProperties": false,
        "required": ["baseUrl", "model"],
        "properties": {"baseUrl": text, "apiKey": text, "model": text, "dims": {"type": "integer", "minimum": 1}},
    })
}

/// `skillConfig`: for each skill's id whatever that skill wants.
pub(crate) fn check_skill_config(value: &Value) -> Result<(), String> {
    let skills = value.as_object().filter(|skills| skills.values().all(Value::is_object));
    skills.map(drop).ok_or_else(|| "must be an object {\"<skill>\": {…}}".to_owned())
}

/// `engram` and `connector`: whether a door is open to programs on this machine.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct AllowLocal {
    pub(crate) allow_local: Option<bool>,
}

pub(crate) fn check_allow_local(value: &Value) -> Result<(), String> {
    if !value.is_object() {
        return Err("must be an object {\"allowLocal\": true or false}".to_owned());
    }
    serde_json::from_value::<AllowLocal>(value.clone())
        .map(drop)
        .map_err(|error| format!("is wrong: {error}"))
}

pub(crate) fn mcp_servers_schema() -> Value {
    let text = json!({"type": "string"});
    let texts = json!({"type": "object", "additionalProperties": text});
    json!({
        "type": "object",
        "additionalProperties": {
            "type": "object",
            "properties": {
                "type": {"enum": ["stdio", "http", "streamable-http"]},
                "command": text,
                "args": {"type": "array", "items": text},
                "env": texts,
                "cwd": text,
                "url": text,
                "headers": texts,
                "disabled": {"type": "boolean"},
            },
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    type Check = fn(&Value) -> Result<(), String>;

    #[test]
    fn blocks_in_order_pass() {
        let cases: [(Check, Value); 8] = [
            (check_host_ports, json!([])),
            (check_host_ports, json!(["127.0.0.1:9000", "nas.local:443"])),
            (check_mcp_servers, json!({})),
            (check_mcp_servers, json!({"a": {"command": "npx", "args": ["-y"], "env": {"K": "v"}}})),
            (check_mcp_servers, json!({"a": {"type": "http", "url": "https://h.example/mcp"}})),
            (check_calendars, json!({"home": "home.ics", "work": "https://c.example/x.ics"})),
            (check_skill_config, json!({"weather": {"city": "Bonn"}})),
            (check_skill_config, json!({})),
        ];
        for (check, value) in cases {
            assert_eq!(check(&value), Ok(()), "{value}");
        }
    }

    #[test]
    fn a_wrong_block_is_told_what_it_must_be() {
        let cases: [(Check, Value, &str); 10] = [
            (check_host_ports, json!("127.0.0.1:9000"), "must be a list of \"host:port\""),
            (check_host_ports, json!([9000]), "must be a list of \"host:port\""),
            (check_host_ports, json!(["127.0.0.1"]), "is wrong: "),
            (
                check_mcp_servers,
                json!([]),
                "must be an object {\"<name>\": {\"command\": …} or {\"url\": …}}",
            ),
            (check_mcp_servers, json!({"a": {}}), "is wrong: mcpServers.a: give command"),
            (check_mcp_servers, json!({"a": {"comand": "x"}}), "is wrong: unknown field `comand`"),
            (check_calendars, json!(["home.ics"]), "must be an object {\"<name>\": \"<file or address>\"}"),
            (check_calendars, json!({"home": ""}), "is wrong: calendar \"home\" has neither"),
            (check_skill_config, json!([]), "must be an object {\"<skill>\": {…}}"),
            (check_skill_config, json!({"weather": "Bonn"}), "must be an object {\"<skill>\": {…}}"),
        ];
        for (check, value, expected) in cases {
            let told = check(&value).unwrap_err();
            assert!(told.starts_with(expected), "{value}: {told}");
        }
    }

    #[test]
    fn what_is_wrong_with_a_server_is_told_without_its_secrets() {
        let value = json!({"a": {"url": "http://h/", "headers": {"a": "s3cret\n"}, "env": {"B": "s3cret"}}});
        let told = check_mcp_servers(&value).unwrap_err();
        assert!(!told.contains("s3cret"), "{told}");
    }
}
