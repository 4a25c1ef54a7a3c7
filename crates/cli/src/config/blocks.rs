//! Blocks whose shape belongs to the tools; here they are only checked and described.

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

/// `skillConfig`: for each skill's id whatever that skill wants.
pub(crate) fn check_skill_config(value: &Value) -> Result<(), String> {
    let skills = value.as_object().filter(|skills| skills.values().all(Value::is_object));
    skills.map(drop).ok_or_else(|| "must be an object {\"<skill>\": {…}}".to_owned())
}

/// `engram`: how the memory routes are opened.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct EngramBlock {
    pub(crate) allow_local: bool,
}

pub(crate) fn check_engram(value: &Value) -> Result<(), String> {
    if !value.is_object() {
        return Err("must be an object {\"allowLocal\": true or false}".to_owned());
    }
    serde_json::from_value::<EngramBlock>(value.clone())
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
