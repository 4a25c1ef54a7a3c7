//! Puts the pieces of one call together into a whole reply, or into nothing.

use crate::delta::{Delta, DeltaSink};
use crate::error::CallError;
use crate::model::Piece;
use crate::sparing::AnyObject;
use crate::tool_name::ToolNames;
use cortex_types::limits::{REPLY_BYTES_MAX, TOOL_CALLS_MAX};
use cortex_types::{ChatMessage, ChatReply, ChatRequest, FinishReason, TokenUsage, ToolCall};
use std::collections::HashSet;

const CUT_MARK: &str = "\n\n[The answer was too long and was cut here.]";
/// OpenAI refuses longer ids in a history.
const CALL_ID_CHARS_MAX: usize = 40;

/// What is kept of the id and of the name of a call; no tool has a longer one.
const NAME_BYTES_MAX: usize = 1_024;

/// A model that calls more than these never stops.
const CALLS_LEFT_OUT_MAX: usize = 1_000;

/// Whether more pieces are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flow {
    More,
    /// No: the rest would only cost.
    Enough,
    /// No: there are none.
    Ended,
}

/// How far the provider got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    Open,
    /// It stopped without saying why.
    Bare,
    Finished(FinishReason),
}

pub(crate) struct Collector<'a> {
    deltas: &'a dyn DeltaSink,
    names: ToolNames,
    ids_in_use: HashSet<String>,
    text: String,
    calls: Vec<PartialCall>,
    calls_left_out: usize,
    arguments_bytes: usize,
    usage: TokenUsage,
    input_estimate: u64,
    ending: Ending,
}

struct PartialCall {
    slot: usize,
    id: String,
    name: String,
    arguments_json: String,
}

impl<'a> Collector<'a> {
    pub(crate) fn new(request: &ChatRequest, deltas: &'a dyn DeltaSink) -> Self {
        Self {
            deltas,
            names: ToolNames::of(&request.tools),
            ids_in_use: call_ids(request),
            text: String::new(),
            calls: Vec::new(),
            calls_left_out: 0,
            arguments_bytes: 0,
            usage: TokenUsage::default(),
            input_estimate: estimated_input(request),
            ending: Ending::Open,
        }
    }

    pub(crate) fn take(&mut self, piece: Piece) -> Result<Flow, CallError> {
        match piece {
            Piece::Text(text) => return Ok(self.take_text(text)),
            Piece::ToolStart { slot, id, name } => self.start_call(slot, id, name)?,
            Piece::ToolArguments { slot, json } => self.take_arguments(slot, &json)?,
            Piece::Usage(usage) => {
                let usage = usage.clamped();
                self.usage.input = self.usage.input.max(usage.input);
                self.usage.output = self.usage.output.max(usage.output);
                self.usage.cached = self.usage.cached.max(usage.cached);
            }
            Piece::Finish(reason) => self.ending = Ending::Finished(reason),
            Piece::Done => {
                if self.ending == Ending::Open {
                    self.ending = Ending::Bare;
                }
                return Ok(Flow::Ended);
            }
        }
        Ok(Flow::More)
    }

    /// The provider said why it stopped; what follows can only be counts.
    pub(crate) fn is_finished(&self) -> bool {
        matches!(self.ending, Ending::Finished(_))
    }

    /// Some text was shown that would have to be taken back.
    pub(crate) fn has_shown(&self) -> bool {
        !self.text.is_empty()
    }

    /// What the provider has counted so far; a failed call costs too.
    pub(crate) fn counted(&self) -> TokenUsage {
        self.usage
    }

    /// The reply, only when the provider ended it.
    pub(crate) fn into_reply(mut self) -> Result<ChatReply, CallError> {
        let reason = match self.ending {
            Ending::Open => return Err(CallError::Cut("the stream ended too early".to_owned())),
            Ending::Bare => FinishReason::Stop,
            Ending::Finished(reason) => reason,
        };
        let may_be_partial = self.ending == Ending::Bare || reason == FinishReason::Length;
        if may_be_partial && self.calls.iter().any(|call| !is_whole(&call.arguments_json)) {
            if self.ending == Ending::Bare {
                return Err(CallError::Cut("a tool call has no end".to_owned()));
            }
            // The output limit can fall inside a call: it must never run with half its arguments.
            self.calls.retain(|call| is_whole(&call.arguments_json));
        }
        if self.calls.iter().any(|call| call.name.is_empty()) {
            return Err(CallError::Malformed("a tool call has no name".to_owned()));
        }
        if self.calls.is_empty() && self.text.trim().is_empty() {
            let is_filtered = reason == FinishReason::Filtered;
            return Err(if is_filtered { CallError::Filtered } else { CallError::Empty });
        }
        let finish = match reason {
            FinishReason::Length | FinishReason::Filtered => reason,
            FinishReason::Stop | FinishReason::ToolCalls if self.calls.is_empty() => FinishReason::Stop,
            FinishReason::Stop | FinishReason::ToolCalls => FinishReason::ToolCalls,
        };
        let usage = self.usage_or_estimate();
        if self.calls_left_out > 0 {
            let all = self.calls.len() + self.calls_left_out;
            self.text
                .push_str(&format!("\n[Only the first {TOOL_CALLS_MAX} of {all} tool calls were kept.]"));
        }
        let tool_calls = self.unique_calls();
        Ok(ChatReply { text: self.text, tool_calls, finish, usage })
    }

    fn take_text(&mut self, mut text: String) -> Flow {
        let room = (REPLY_BYTES_MAX - CUT_MARK.len()).saturating_sub(self.text.len());
        if text.is_empty() {
            return Flow::More;
        }
        let is_cut = text.len() > room;
        if is_cut {
            text.truncate(text.floor_char_boundary(room));
            text.push_str(CUT_MARK);
        }
        self.text.push_str(&text);
        self.deltas.push(Delta::Text(text));
        if !is_cut {
            return Flow::More;
        }
        // Reading on would only cost: an endless answer never reaches its calls.
        self.calls.clear();
        self.ending = Ending::Finished(FinishReason::Length);
        Flow::Enough
    }

    fn start_call(&mut self, slot: usize, mut id: String, mut name: String) -> Result<(), CallError> {
        id.truncate(id.floor_char_boundary(NAME_BYTES_MAX));
        name.truncate(name.floor_char_boundary(NAME_BYTES_MAX));
        if let Some(call) = self.calls.iter_mut().find(|call| call.slot == slot) {
            if call.id.is_empty() {
                call.id = id;
            }
            if call.name.is_empty() {
                call.name = name;
            }
        } else if self.calls.len() < TOOL_CALLS_MAX {
            self.calls.push(PartialCall { slot, id, name, arguments_json: String::new() });
        } else if self.calls_left_out < CALLS_LEFT_OUT_MAX {
            self.calls_left_out += 1;
        } else {
            return Err(CallError::Malformed("it calls tools without an end".to_owned()));
        }
        Ok(())
    }

    fn take_arguments(&mut self, slot: usize, json: &str) -> Result<(), CallError> {
        if let Some(call) = self.calls.iter_mut().find(|call| call.slot == slot) {
            self.arguments_bytes += json.len();
            if self.arguments_bytes > REPLY_BYTES_MAX {
                return Err(CallError::Malformed(format!("over {REPLY_BYTES_MAX} bytes of tool arguments")));
            }
            call.arguments_json.push_str(json);
        }
        Ok(())
    }

    fn usage_or_estimate(&self) -> TokenUsage {
        let said: usize = self.text.len() + self.arguments_bytes;
        TokenUsage {
            input: if self.usage.input == 0 { self.input_estimate } else { self.usage.input },
            output: if self.usage.output == 0 { tokens_in(said) } else { self.usage.output },
            cached: self.usage.cached,
        }
    }

    /// Ids must be one of a kind in the whole history, or a provider refuses it the next time.
    fn unique_calls(&mut self) -> Vec<ToolCall> {
        let mut calls = Vec::with_capacity(self.calls.len());
        for call in std::mem::take(&mut self.calls) {
            let wanted: String = call
                .id
                .chars()
                .map(|c| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' })
                .take(CALL_ID_CHARS_MAX)
                .collect();
            let wanted = if wanted.is_empty() { "call".to_owned() } else { wanted };
            let mut id = wanted.clone();
            let mut number = 1;
            while !self.ids_in_use.insert(id.clone()) {
                number += 1;
                let suffix = format!("_{number}");
                id = wanted.chars().take(CALL_ID_CHARS_MAX - suffix.len()).collect::<String>() + &suffix;
            }
            let arguments_json =
                if call.arguments_json.trim().is_empty() { "{}".to_owned() } else { call.arguments_json };
            calls.push(ToolCall { id, name: self.names.name_of(&call.name), arguments_json });
        }
        calls
    }
}

fn is_whole(arguments_json: &str) -> bool {
    serde_json::from_str::<AnyObject>(arguments_json).is_ok()
}

fn call_ids(request: &ChatRequest) -> HashSet<String> {
    let mut ids = HashSet::new();
    for message in &request.messages {
        if let ChatMessage::Assistant { tool_calls, .. } = message {
            ids.extend(tool_calls.iter().map(|call| call.id.clone()));
        }
    }
    ids
}

/// About four bytes are a token: good enough where a provider does not count.
fn tokens_in(bytes: usize) -> u64 {
    u64::try_from(bytes.div_ceil(4)).unwrap_or(u64::MAX)
}

fn estimated_input(request: &ChatRequest) -> u64 {
    let messages: usize = request
        .messages
        .iter()
        .map(|message| match message {
            ChatMessage::User { text } => text.len(),
            ChatMessage::Assistant { text, tool_calls } => {
                text.len()
                    + tool_calls.iter().map(|call| call.name.len() + call.arguments_json.len()).sum::<usize>()
            }
            ChatMessage::Tool { name, text, .. } => name.len() + text.len(),
        })
        .sum();
    let tools: usize = request
        .tools
        .iter()
        .map(|tool| tool.name.len() + tool.description.len() + tool.input_schema_json.len())
        .sum();
    tokens_in(request.system.len() + messages + tools)
}

#[cfg(test)]
mod tests;
