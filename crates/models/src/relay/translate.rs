//! A chat completion request in our own words, for providers that speak another protocol.

use super::{RelayPath, RelayRequest};
use crate::sparing::values_in;
use cortex_types::{ChatMessage, ChatRequest, Sampling, ToolCall, ToolSpec};
use serde_json::Value;
use std::collections::HashMap;

/// Most values in the arguments of all tool calls of a request: other wires want them as objects, and they are counted as
/// text where the request comes in.
const ARGUMENT_VALUES_MAX: usize = 32_768;

/// The question, and what the client wants to read besides the answer.
#[derive(Debug, PartialEq)]
pub(super) struct Translated {
    pub(super) question: ChatRequest,
    /// A stream ends with the counts.
    pub(super) with_usage: bool,
}

/// An error says what `kind` of provider cannot be told.
pub(super) fn request(kind: &str, request: &RelayRequest) -> Result<Translated, String> {
    if request.path != RelayPath::Chat {
        return Err(format!("this model is reached over {kind}: use /v1/chat/completions"));
    }
    let body: Value = serde_json::from_slice(&request.body).map_err(|_| "the body is not JSON".to_owned())?;
    read(&body).map_err(|problem| format!("{problem}, which cannot be passed on to {kind}"))
}

fn read(body: &Value) -> Result<Translated, String> {
    refuse_what_has_no_place(body)?;
    let mut question = ChatRequest {
        max_output_tokens: max_tokens(body),
        sampling: sampling(body)?,
        ..ChatRequest::default()
    };
    let mut names = HashMap::new();
    let mut argument_values = 0;
    let messages = body["messages"].as_array().ok_or("messages is not a list")?;
    for message in messages {
        match message["role"].as_str().unwrap_or_default() {
            "system" | "developer" => {
                if !question.system.is_empty() {
                    question.system.push_str("\n\n");
                }
                question.system.push_str(&text_in(&message["content"])?);
            }
            "user" => question.messages.push(ChatMessage::User { text: text_in(&message["content"])? }),
            "assistant" => {
                let tool_calls = tool_calls(message)?;
                argument_values +=
                    tool_calls.iter().map(|call| values_in(&call.arguments_json)).sum::<usize>();
                if argument_values > ARGUMENT_VALUES_MAX {
                    return Err("the arguments of its tool calls have too many values".to_owned());
                }
                names.extend(tool_calls.iter().map(|call| (call.id.clone(), call.name.clone())));
                let text = text_in(&message["content"])?;
                question.messages.push(ChatMessage::Assistant { text, tool_calls });
            }
            "tool" => {
                let call_id = text_at(message, "tool_call_id")?;
                let name = names.get(&call_id).cloned().ok_or("a tool result has no call before it")?;
                let text = text_in(&message["content"])?;
                question.messages.push(ChatMessage::Tool { call_id, name, text, is_error: false });
            }
            other => return Err(format!("a message has the role {other:?}")),
        }
    }
    if body["tool_choice"] != "none" {
        let tools = body["tools"].as_array().map(Vec::as_slice).unwrap_or_default();
        question.tools = tools.iter().map(tool).collect::<Result<_, _>>()?;
    }
    Ok(Translated { question, with_usage: body["stream_options"]["include_usage"] == true })
}

/// What would change the answer if it were left out; what only flavours it is left out.
fn refuse_what_has_no_place(body: &Value) -> Result<(), String> {
    let is_set = |name: &str| !matches!(body[name], Value::Null | Value::Bool(false));
    if is_set("n") && body["n"] != 1 {
        return Err("n is not 1".to_owned());
    }
    if is_set("response_format") && body["response_format"]["type"] != "text" {
        return Err("response_format is not text".to_owned());
    }
    if is_set("tool_choice") && body["tool_choice"] != "auto" && body["tool_choice"] != "none" {
        return Err("tool_choice is neither auto nor none".to_owned());
    }
    match ["functions", "function_call", "audio", "logprobs"].into_iter().find(|name| is_set(name)) {
        Some(name) => Err(format!("{name} is set")),
        None => Ok(()),
    }
}

fn max_tokens(body: &Value) -> Option<u32> {
    let asked = body["max_completion_tokens"].as_u64().or(body["max_tokens"].as_u64())?;
    u32::try_from(asked).ok()
}

fn sampling(body: &Value) -> Result<Sampling, String> {
    let number = |name: &str| match body[name].as_f64() {
        None if !body[name].is_null() => Err(format!("{name} is not a number")),
        number => Ok(number),
    };
    let listed = || serde_json::from_value(body["stop"].clone());
    let stop = match body["stop"].as_str() {
        Some(text) => vec![text.to_owned()],
        None if body["stop"].is_null() => Vec::new(),
        None => listed().map_err(|_| "stop is not a list of texts".to_owned())?,
    };
    Ok(Sampling { temperature: number("temperature")?, top_p: number("top_p")?, stop })
}

fn text_in(content: &Value) -> Result<String, String> {
    match content {
        Value::Null => Ok(String::new()),
        Value::String(text) => Ok(text.clone()),
        Value::Array(parts) => {
            let text_of = |part: &Value| match part["text"].as_str() {
                Some(text) if part["type"] == "text" => Ok(text.to_owned()),
                Some(_) | None => {
                    Err(format!("a message has a part of the type {}", part["type"].as_str().unwrap_or("?")))
                }
            };
            Ok(parts.iter().map(text_of).collect::<Result<Vec<_>, _>>()?.join("\n"))
        }
        Value::Bool(_) | Value::Number(_) | Value::Object(_) => Err("a content is no text".to_owned()),
    }
}

fn text_at(object: &Value, name: &str) -> Result<String, String> {
    object[name].as_str().map(str::to_owned).ok_or_else(|| format!("{name} is no text"))
}

fn tool_calls(message: &Value) -> Result<Vec<ToolCall>, String> {
    let calls = message["tool_calls"].as_array().map(Vec::as_slice).unwrap_or_default();
    let read = |call: &Value| {
        Ok(ToolCall {
            id: text_at(call, "id")?,
            name: text_at(&call["function"], "name")?,
            arguments_json: text_at(&call["function"], "arguments")?,
        })
    };
    calls.iter().map(read).collect()
}

fn tool(tool: &Value) -> Result<ToolSpec, String> {
    if tool["type"] != "function" {
        return Err(format!("a tool has the type {}", tool["type"]));
    }
    let function = &tool["function"];
    let schema = &function["parameters"];
    Ok(ToolSpec {
        name: text_at(function, "name")?,
        description: function["description"].as_str().unwrap_or_default().to_owned(),
        input_schema_json: if schema.is_object() {
            schema.to_string()
        } else {
            r#"{"type":"object"}"#.to_owned()
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn messages_tools_and_results_are_understood() {
        let translated = read(&json!({
            "max_tokens": 9, "temperature": 0.1, "top_p": 0.5, "stop": "END", "stream_options": { "include_usage": true },
            "messages": [
                { "role": "system", "content": "brief" },
                { "role": "user", "content": [{ "type": "text", "text": "weather?" }] },
                { "role": "assistant", "content": null, "tool_calls": [
                    { "id": "c1", "type": "function", "function": { "name": "now", "arguments": "{}" } }] },
                { "role": "tool", "tool_call_id": "c1", "content": "rain" },
            ],
            "tools": [{ "type": "function", "function": { "name": "now", "parameters": { "type": "object" } } }],
        }))
        .unwrap();
        assert!(translated.with_usage);
        let question = translated.question;
        assert_eq!((question.system.as_str(), question.max_output_tokens), ("brief", Some(9)));
        let stop = vec!["END".to_owned()];
        assert_eq!(question.sampling, Sampling { temperature: Some(0.1), top_p: Some(0.5), stop });
        assert_eq!(question.messages[0], ChatMessage::User { text: "weather?".to_owned() });
        let result = ChatMessage::Tool {
            call_id: "c1".to_owned(),
            name: "now".to_owned(),
            text: "rain".to_owned(),
            is_error: false,
        };
        assert_eq!(question.messages[2], result);
        assert_eq!(question.tools[0].name, "now");
    }

    #[test]
    fn what_has_no_place_in_another_protocol_is_named() {
        let with = |name: &str, value: Value| {
            let mut body = json!({ "messages": [{ "role": "user", "content": "hi" }] });
            body[name] = value;
            read(&body).err().unwrap_or_default()
        };
        assert_eq!(with("n", json!(2)), "n is not 1");
        assert_eq!(with("n", json!(1)), "");
        assert_eq!(with("response_format", json!({ "type": "json_object" })), "response_format is not text");
        assert_eq!(with("tool_choice", json!("required")), "tool_choice is neither auto nor none");
        assert_eq!(with("logprobs", json!(true)), "logprobs is set");
        assert_eq!(with("logprobs", json!(false)), "");
        assert_eq!(with("temperature", json!("warm")), "temperature is not a number");
        assert_eq!(with("stop", json!([1])), "stop is not a list of texts");
        assert_eq!(with("stop", json!(["a", "b"])), "");
        let image = json!([{ "role": "user", "content": [{ "type": "image_url", "image_url": {} }] }]);
        assert_eq!(with("messages", image), "a message has a part of the type image_url");
        let crumbs = format!("[{}]", "0,".repeat(40_000));
        let calls = json!([{ "id": "c1", "function": { "name": "now", "arguments": crumbs } }]);
        let calling = json!([{ "role": "assistant", "tool_calls": calls }]);
        assert_eq!(with("messages", calling), "the arguments of its tool calls have too many values");
        let orphan = json!([{ "role": "tool", "tool_call_id": "x", "content": "" }]);
        assert_eq!(with("messages", orphan), "a tool result has no call before it");
    }
}
