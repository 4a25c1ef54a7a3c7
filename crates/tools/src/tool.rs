//! What a tool is: its definition, where it comes from, and how it is run.

use crate::egress::HostPolicy;
use async_trait::async_trait;
use cortex_types::{EventId, Millis, Sight, TopicRef};
use sha2::{Digest, Sha256};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

const NAME_CHARS_MAX: usize = 64;

/// `skill.tool`: two parts of letters, digits, `_` and `-`; at most 64 characters with `__` for the dot, as models see it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ToolName {
    full: String,
    dot: usize,
}

/// A text that names no tool.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a tool name; use skill.tool with letters, digits, _ and -, at most 63 characters")]
pub struct ToolNameError(String);

/// The first names of the server's own tools. A skill or MCP server of such a name would be taken for them.
const OWN_SKILLS: [&str; 6] = ["calendar", "http", "memory", "schedule", "session", "time"];

/// Whether a skill or MCP server of this name would look like the server's own tools.
pub(crate) fn is_own_skill(name: &str) -> bool {
    OWN_SKILLS.iter().any(|own| own.eq_ignore_ascii_case(name.trim_matches(['_', '-'])))
}

impl ToolName {
    pub fn new(skill: &str, tool: &str) -> Result<Self, ToolNameError> {
        let full = format!("{skill}.{tool}");
        let is_part = |part: &str| {
            !part.is_empty()
                && part.chars().all(|letter| letter.is_ascii_alphanumeric() || "_-".contains(letter))
        };
        if is_part(skill) && is_part(tool) && full.len() < NAME_CHARS_MAX {
            Ok(Self { dot: skill.len(), full })
        } else {
            Err(ToolNameError(full.chars().take(100).collect()))
        }
    }

    pub fn as_str(&self) -> &str {
        &self.full
    }

    /// What it looks like to a model or a person: names that differ in case or in marks alone are taken for each other.
    pub fn look(&self) -> String {
        let mut look = String::with_capacity(self.full.len());
        for letter in self.full.chars() {
            let letter = if letter.is_ascii_alphanumeric() { letter.to_ascii_lowercase() } else { '_' };
            if letter != '_' || !look.ends_with('_') {
                look.push(letter);
            }
        }
        look
    }

    pub fn skill(&self) -> &str {
        &self.full[..self.dot]
    }

    pub fn tool(&self) -> &str {
        &self.full[self.dot + 1..]
    }
}

impl FromStr for ToolName {
    type Err = ToolNameError;

    fn from_str(text: &str) -> Result<Self, ToolNameError> {
        let (skill, tool) =
            text.split_once('.').ok_or_else(|| ToolNameError(text.chars().take(100).collect()))?;
        Self::new(skill, tool)
    }
}

impl fmt::Display for ToolName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.full)
    }
}

/// Whether a call can change something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mutation {
    ReadOnly,
    Mutates,
    /// The author did not say; `undeclaredTools` decides (D10).
    Undeclared,
}

/// Where a tool comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToolSource {
    BuiltIn,
    Skill { id: String, version: String },
    Mcp { server: String },
}

impl fmt::Display for ToolSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BuiltIn => f.write_str("built-in"),
            Self::Skill { id, .. } => write!(f, "skill {id}"),
            Self::Mcp { server } => write!(f, "mcp {server}"),
        }
    }
}

/// A tool as it is offered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolDefinition {
    pub name: ToolName,
    pub description: String,
    /// JSON Schema as JSON text; the root is an object schema.
    pub input_schema_json: String,
    pub mutation: Mutation,
    pub source: ToolSource,
    /// Its own limit where it has one; else `toolTimeoutMs`.
    pub timeout: Option<Duration>,
}

impl ToolDefinition {
    /// What is pinned when a definition is trusted: every word the model and the user are shown.
    pub fn hash(&self) -> [u8; 32] {
        let mut hasher = Sha256::new();
        let mutation = match self.mutation {
            Mutation::ReadOnly => "read_only",
            Mutation::Mutates => "mutates",
            Mutation::Undeclared => "undeclared",
        };
        for part in [self.name.as_str(), &self.description, &self.input_schema_json, mutation] {
            hasher.update(part.as_bytes());
            hasher.update([0]);
        }
        hasher.finalize().into()
    }
}

/// Who asks, from where, and when; what a tool may know about its caller.
#[derive(Debug, Clone)]
pub struct CallContext {
    pub topic: TopicRef,
    /// The message that the call is about; `None` when a person calls the tool by hand.
    pub event: Option<EventId>,
    pub user_id: String,
    /// What the call may see of the owner's memory.
    pub sight: Sight,
    pub now: Millis,
    /// Public hosts that the call may reach, redirects included.
    pub reach: HostPolicy,
    /// Cancelled when nobody waits for the result any more.
    pub cancel: CancellationToken,
}

/// What a tool gave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolOutcome {
    pub text: String,
}

/// Arguments as they will run, and more lines for the person who is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PreparedArguments {
    pub arguments_json: String,
    pub preview: Option<String>,
}

/// Why a tool gave nothing. The text goes to the model; it is data, not a fault of ours.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ToolCallError {
    /// It ran and failed.
    #[error("{0}")]
    Failed(String),
    /// It never started: the arguments or the tool itself were wrong.
    #[error("not run: {0}")]
    NotRun(String),
    /// It only reads and was given up after this time; nothing it gives later is heard.
    #[error("timed out after {} ms; outcome unknown", .0.as_millis())]
    TimedOut(Duration),
    /// Nobody knows whether it took effect (D24).
    #[error("{0}; outcome unknown")]
    Unknown(String),
}

/// Something that can run the tools it defined. It need not watch the clock: the registry does.
#[async_trait]
pub trait ToolRunner: Send + Sync {
    /// Resolves what a person should see resolved before the call is approved, such as "every weekday at 9" to its
    /// cron. What comes back is what is shown, hashed and run.
    async fn prepare(
        &self,
        _name: &ToolName,
        arguments_json: &str,
        _context: &CallContext,
    ) -> Result<PreparedArguments, ToolCallError> {
        Ok(PreparedArguments { arguments_json: arguments_json.to_owned(), preview: None })
    }

    /// Waits until the tool can run as it was defined, within a bound. An error means that it did not start.
    async fn ready(&self, _definition: &ToolDefinition, _context: &CallContext) -> Result<(), ToolCallError> {
        Ok(())
    }

    async fn run(
        &self,
        name: &ToolName,
        arguments_json: &str,
        context: &CallContext,
    ) -> Result<ToolOutcome, ToolCallError>;
}
