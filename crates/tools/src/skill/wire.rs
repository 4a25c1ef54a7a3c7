//! What is said between a skill's engine and its keeper: over channels to a thread, as lines of JSON to a process.

use super::fetch::{SkillRequest, SkillResponse};
use super::program::Program;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Everything an engine needs to start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct EngineSetup {
    pub(crate) skill: String,
    pub(crate) program: Program,
    pub(crate) config_json: String,
    /// Its private database; `None` when its manifest renounces one.
    pub(crate) db: Option<PathBuf>,
    pub(crate) heap_mib: u32,
}

/// To the engine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum ToEngine {
    Load(Box<EngineSetup>),
    Call { name: String, arguments_json: String, now_iso: String },
    Fetched { op: u32, result: Result<SkillResponse, String> },
}

/// From the engine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum FromEngine {
    Loaded(Vec<ListedTool>),
    /// It cannot run this skill; the trace says why.
    Refused(String),
    Fetch {
        op: u32,
        request: SkillRequest,
    },
    Log {
        level: LogLevel,
        text: String,
    },
    Ended(Ending),
}

/// How a call ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Ending {
    /// What `execute` gave.
    Done(String),
    /// The trace of an error that the skill's own code threw; the engine goes on as before.
    Threw(String),
    /// The trace of a fault after which the engine is of no use, such as a full heap.
    Broke(String),
    /// The same, after it had written to its database or sent a request: nobody knows what took effect.
    BrokeHalfway(String),
}

/// A tool as `listTools()` names it, not yet checked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ListedTool {
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) input_schema_json: String,
    pub(crate) mutates_state: Option<bool>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum LogLevel {
    Debug,
    Info,
    Warn,
    Error,
}
