//! The settings of the flow.

use crate::engram::EngramClient;
use crate::token::TokenKey;
use cortex_models::Embedder;
use cortex_types::ChannelSettings;
use std::path::PathBuf;
use std::time::Duration;

/// Everything the runtime can be told; the names follow `server.json`.
#[derive(Debug, Clone)]
pub struct RuntimeConfig {
    pub max_parallel_topics: u32,
    pub inbox_max_attempts: u32,
    pub inbox_max_restarts: u32,
    pub max_tool_rounds: u32,
    /// User-led groups of history the model sees.
    pub active_window_size: u32,
    /// `None` is no limit.
    pub max_tokens_per_event: Option<u64>,
    pub max_tokens_per_day: Option<u64>,
    pub outbox_poll_default_batch: u32,
    pub outbox_lease: Duration,
    pub outbox_max_attempts: u32,
    pub tool_timeout: Duration,
    pub approval_ttl: Duration,
    /// What the tokens of questions are made with.
    pub token_key: TokenKey,
    /// Users who may answer any question.
    pub approvers: Vec<String>,
    /// Whether a plain yes or no decides the one question that is open.
    pub bare_words: bool,
    /// Whether a tool that does not say if it changes something asks first (D10).
    pub undeclared_tools_ask: bool,
    pub scheduler_tick: Duration,
    /// The zone of jobs that name none; an IANA name.
    pub scheduler_timezone: String,
    /// Makes the vectors of facts and of what was said.
    pub embedder: Embedder,
    /// Messages of people between two extractions; 0 leaves extraction to the gardener's hours.
    pub extraction_interval: u32,
    /// How long history is kept; `None` is for ever.
    pub turn_ttl: Option<Duration>,
    /// What the gardener's models may cost a day; `None` is no limit.
    pub gardener_tokens_per_day: Option<u64>,
    /// The memory service that is used instead of the built-in memory.
    pub engram: Option<EngramClient>,
    /// What each channel may do, and who is who; can change while the server runs.
    pub channels: ChannelSettings,
    /// Whether facts are remembered: then the foreground is kept small and old channels are left out (D17).
    pub memory_enabled: bool,
    /// Tokens of a prompt and its answer; `None` goes by the model's name.
    pub context_tokens: Option<u32>,
    /// Where SOUL.md and its kin are.
    pub workspace: PathBuf,
    /// How long running turns may take to finish once the server stops.
    pub drain: Duration,
}

impl RuntimeConfig {
    /// The defaults of the product.
    pub fn for_workspace(workspace: PathBuf) -> Self {
        Self {
            max_parallel_topics: 4,
            inbox_max_attempts: 5,
            inbox_max_restarts: 20,
            max_tool_rounds: 8,
            active_window_size: 10,
            max_tokens_per_event: Some(200_000),
            max_tokens_per_day: None,
            outbox_poll_default_batch: 20,
            outbox_lease: Duration::from_secs(60),
            outbox_max_attempts: 10,
            tool_timeout: Duration::from_secs(20),
            approval_ttl: Duration::from_secs(15 * 60),
            token_key: TokenKey::fresh(),
            approvers: Vec::new(),
            bare_words: false,
            undeclared_tools_ask: false,
            scheduler_tick: Duration::from_secs(30),
            scheduler_timezone: "UTC".to_owned(),
            embedder: Embedder::built_in(),
            extraction_interval: 3,
            turn_ttl: Some(Duration::from_secs(30 * 24 * 60 * 60)),
            gardener_tokens_per_day: Some(200_000),
            engram: None,
            channels: ChannelSettings::default(),
            memory_enabled: true,
            context_tokens: None,
            workspace,
            drain: Duration::from_secs(30),
        }
    }
}
