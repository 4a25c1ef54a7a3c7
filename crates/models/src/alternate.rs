//! Messages for the wires that insist on two roles, one after the other, the user first.

use cortex_types::{ChatMessage, ToolCall};
use serde_json::{Value, json};

/// Stands for what an assistant answered to when that is no longer in the history.
const MISSING_BEGINNING: &str = "(earlier messages are not shown)";

/// Whose words a block is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    User,
    Model,
}

/// How a wire writes the three things that can be in a message.
pub(crate) struct Blocks {
    pub(crate) text: fn(&str) -> Value,
    pub(crate) call: fn(&ToolCall) -> Value,
    pub(crate) result: fn(&ToolResult<'_>) -> Value,
}

/// What a tool gave back.
pub(crate) struct ToolResult<'a> {
    pub(crate) call_id: &'a str,
    pub(crate) name: &'a str,
    pub(crate) text: &'a str,
    pub(crate) is_error: bool,
}

/// Neighbours of the same side are joined; empty texts, which those wires refuse, are left out.
pub(crate) fn alternating(messages: &[ChatMessage], blocks: &Blocks) -> Vec<(Side, Vec<Value>)> {
    let mut sides: Vec<(Side, Vec<Value>)> = Vec::new();
    for message in messages {
        let (side, parts) = match message {
            ChatMessage::User { text } => (Side::User, text_block(text, blocks)),
            ChatMessage::Assistant { text, tool_calls } => {
                let mut parts = text_block(text, blocks);
                parts.extend(tool_calls.iter().map(blocks.call));
                (Side::Model, parts)
            }
            ChatMessage::Tool { call_id, name, text, is_error } => {
                (Side::User, vec![(blocks.result)(&ToolResult { call_id, name, text, is_error: *is_error })])
            }
        };
        match sides.last_mut() {
            _ if parts.is_empty() => {}
            Some((last, said)) if *last == side => said.extend(parts),
            Some(_) | None => sides.push((side, parts)),
        }
    }
    if sides.first().is_none_or(|(side, _)| *side == Side::Model) {
        sides.insert(0, (Side::User, vec![(blocks.text)(MISSING_BEGINNING)]));
    }
    sides
}

/// Arguments as the object these wires want; what is none is shown to the model as it was.
pub(crate) fn arguments_object(arguments_json: &str) -> Value {
    match serde_json::from_str::<Value>(arguments_json) {
        Ok(object @ Value::Object(_)) => object,
        Ok(_) | Err(_) => json!({ "not_an_object": arguments_json }),
    }
}

/// A tool's schema; a text that is none is taken as "any object".
pub(crate) fn schema_object(schema_json: &str) -> Value {
    match serde_json::from_str::<Value>(schema_json) {
        Ok(object @ Value::Object(_)) => object,
        Ok(_) | Err(_) => json!({ "type": "object" }),
    }
}

fn text_block(text: &str, blocks: &Blocks) -> Vec<Value> {
    if text.trim().is_empty() { Vec::new() } else { vec![(blocks.text)(text)] }
}
