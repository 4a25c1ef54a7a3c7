//! The settings as the rest of the program uses them: typed, complete, checked.

use super::effective::Effective;
use cortex_models::{EmbeddingSettings, ProviderSettings};
use cortex_tools::{HostPort, McpServers};
use secrecy::SecretString;
use serde::Deserialize;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The keys that this version acts on. The rest of the table is checked and listed all the same.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Settings {
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) allowed_hosts: Vec<String>,
    pub(crate) allowed_origins: Vec<String>,
    pub(crate) ingest_api_key: Option<SecretString>,
    pub(crate) synapse_url: String,
    pub(crate) engram_url: String,
    pub(crate) ollama_url: String,
    pub(crate) model: Option<String>,
    pub(crate) providers: Option<ProviderSettings>,
    pub(crate) embedding: Option<EmbeddingSettings>,
    pub(crate) scripted_model: Option<PathBuf>,
    pub(crate) price_file: Option<PathBuf>,
    pub(crate) model_timeout_ms: u64,
    pub(crate) model_idle_timeout_ms: u64,
    pub(crate) max_tokens_per_event: u64,
    pub(crate) max_tokens_per_day: u64,
    pub(crate) active_window_size: u32,
    pub(crate) outbox_poll_default_batch: u32,
    pub(crate) outbox_lease_seconds: u32,
    pub(crate) outbox_max_attempts: u32,
    pub(crate) inbox_max_attempts: u32,
    pub(crate) inbox_max_restarts: u32,
    pub(crate) max_parallel_topics: u32,
    pub(crate) max_tool_rounds: u32,
    pub(crate) skill_dirs: Vec<PathBuf>,
    pub(crate) skill_config: Map<String, Value>,
    #[serde(rename = "skillHeapMiB")]
    pub(crate) skill_heap_mib: u32,
    pub(crate) skill_isolation: Isolation,
    pub(crate) undeclared_tools: Undeclared,
    pub(crate) mcp_servers: McpServers,
    pub(crate) egress_allow: Vec<HostPort>,
    pub(crate) calendars: BTreeMap<String, String>,
    pub(crate) tool_timeout_ms: u64,
    pub(crate) approval_ttl_minutes: u32,
    pub(crate) approvers: Vec<String>,
    pub(crate) scheduler_tick_seconds: u32,
    pub(crate) scheduler_timezone: String,
    pub(crate) drain_seconds: u64,
    pub(crate) log_level: String,
}

/// `skillIsolation`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Isolation {
    Thread,
    Process,
}

/// `undeclaredTools`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Undeclared {
    Run,
    Ask,
}

impl Settings {
    pub(crate) fn from_effective(effective: &Effective) -> Result<Self, serde_json::Error> {
        let fields: Map<String, Value> =
            effective.entries.iter().map(|entry| (entry.key.name.to_owned(), entry.value.clone())).collect();
        serde_json::from_value(Value::Object(fields))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Flags, load};
    use crate::environment::Environment;

    #[test]
    fn every_setting_is_a_key_of_the_table() {
        let home = tempfile::tempdir().unwrap();
        let effective = load(home.path(), &Flags::default(), &Environment::default()).unwrap();
        let settings = Settings::from_effective(&effective).unwrap();
        assert_eq!((settings.port, settings.outbox_max_attempts), (7751, 10));
    }
}
