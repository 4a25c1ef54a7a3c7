//! The shape of a script file.

use serde::Deserialize;
use serde_json::{Map, Value};

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Script {
    #[serde(default = "unnamed")]
    pub(super) model: String,
    #[serde(default)]
    pub(super) answers: Vec<Answer>,
    pub(super) otherwise: Option<Answer>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Answer {
    /// All that is given must fit; nothing given fits always.
    #[serde(default)]
    pub(super) when: When,
    /// How often it may be given; without it, for ever.
    pub(super) times: Option<u32>,
    pub(super) say: Option<String>,
    /// Pieces of text, each streamed by itself, before `say`.
    #[serde(default)]
    pub(super) deltas: Vec<String>,
    #[serde(default)]
    pub(super) tool_calls: Vec<ScriptedCall>,
    /// Wait before the error, or before each piece.
    #[serde(default)]
    pub(super) delay_ms: u64,
    pub(super) error: Option<ScriptedError>,
    #[serde(default)]
    pub(super) then: Ending,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(super) struct When {
    pub(super) equals: Option<String>,
    pub(super) contains: Option<String>,
    pub(super) starts_with: Option<String>,
    /// The number of the call in this process, from 1.
    pub(super) call: Option<u32>,
    /// The last message is the result of this tool.
    pub(super) after_tool: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ScriptedCall {
    #[serde(default)]
    pub(super) id: String,
    pub(super) name: String,
    pub(super) arguments: Option<Map<String, Value>>,
    /// Arguments that need not be JSON; wins over `arguments`.
    pub(super) arguments_text: Option<String>,
}

/// What happens instead of an answer.
#[derive(Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase", rename_all_fields = "camelCase", deny_unknown_fields)]
pub(super) enum ScriptedError {
    RateLimited {
        retry_after_seconds: Option<u64>,
    },
    Server {
        #[serde(default = "internal_error")]
        status: u16,
    },
    Unauthorized,
    Rejected,
    Network,
    Hang,
}

/// What happens after the last piece.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Ending {
    #[default]
    Finish,
    /// The connection ends without a word.
    Cut,
    /// Garbage follows.
    Malformed,
    /// Nothing follows, and the connection stays open.
    Hang,
}

fn unnamed() -> String {
    "scripted".to_owned()
}

fn internal_error() -> u16 {
    500
}
