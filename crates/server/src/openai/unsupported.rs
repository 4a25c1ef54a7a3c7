//! What the assistant itself cannot do for a client: refused by name, because a client that counts on it would be
//! misled by an answer without it. How an answer is sampled is only advice, and is not looked at.

use super::refusal::OpenAiRefusal;
use serde_json::{Map, Value};

/// A field, when it asks for more than nothing, and what is said then.
struct Unsupported {
    field: &'static str,
    asks: fn(&Value) -> bool,
    because: &'static str,
}

const TOOLS: &str = "cortex has its own tools and calls none of a client's; leave it out";
const ONE_TEXT: &str = "cortex answers with one text; leave it out";

const IN_BOTH: &[Unsupported] = &[
    Unsupported { field: "tools", asks: is_filled, because: TOOLS },
    Unsupported { field: "tool_choice", asks: forces_a_tool, because: TOOLS },
    Unsupported {
        field: "top_logprobs",
        asks: is_filled,
        because: "cortex gives no probabilities; leave it out",
    },
];

const IN_CHAT: &[Unsupported] = &[
    Unsupported { field: "functions", asks: is_filled, because: TOOLS },
    Unsupported { field: "function_call", asks: forces_a_tool, because: TOOLS },
    Unsupported {
        field: "response_format",
        asks: is_no_text,
        because: "cortex answers in words, not in JSON; only the type text is possible",
    },
    Unsupported {
        field: "n",
        asks: |n| n.as_f64() != Some(1.0),
        because: "cortex gives one answer: n must be 1",
    },
    Unsupported {
        field: "logprobs",
        asks: is_filled,
        because: "cortex gives no probabilities; leave it out",
    },
    Unsupported { field: "logit_bias", asks: is_filled, because: "cortex weighs no tokens; leave it out" },
    Unsupported { field: "stop", asks: is_filled, because: "cortex does not stop at words; leave it out" },
    Unsupported {
        field: "modalities",
        asks: |kinds| *kinds != serde_json::json!(["text"]),
        because: ONE_TEXT,
    },
    Unsupported { field: "audio", asks: |_| true, because: ONE_TEXT },
    Unsupported { field: "web_search_options", asks: |_| true, because: TOOLS },
];

const IN_RESPONSES: &[Unsupported] = &[
    Unsupported {
        field: "text",
        asks: |text| text.get("format").is_some_and(|format| !format.is_null() && is_no_text(format)),
        because: "cortex answers in words, not in JSON; only the format text is possible",
    },
    Unsupported {
        field: "background",
        asks: is_filled,
        because: "cortex does not answer in the background; ask with a stream, or wait",
    },
    Unsupported {
        field: "prompt",
        asks: |_| true,
        because: "cortex keeps no prompts of clients; leave it out",
    },
];

pub(super) fn refuse_in_chat(body: &Map<String, Value>) -> Result<(), OpenAiRefusal> {
    refuse(body, IN_CHAT)
}

pub(super) fn refuse_in_responses(body: &Map<String, Value>) -> Result<(), OpenAiRefusal> {
    refuse(body, IN_RESPONSES)
}

fn refuse(body: &Map<String, Value>, fields: &[Unsupported]) -> Result<(), OpenAiRefusal> {
    let asked = |unsupported: &&Unsupported| {
        let value = body.get(unsupported.field).filter(|value| !value.is_null());
        value.is_some_and(unsupported.asks)
    };
    match IN_BOTH.iter().chain(fields).find(asked) {
        Some(Unsupported { field, because, .. }) => {
            Err(OpenAiRefusal::unsupported(field, format!("{field} is not supported: {because}")))
        }
        None => Ok(()),
    }
}

/// Anything but what every client may send to say nothing.
fn is_filled(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(is_set) => *is_set,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
    }
}

fn forces_a_tool(choice: &Value) -> bool {
    choice != "auto" && choice != "none"
}

fn is_no_text(format: &Value) -> bool {
    format["type"] != "text"
}
