//! The settings as the rest of the program uses them: typed, complete, checked.

use super::blocks::AllowLocal;
use super::channels::{Approvals, ChannelEntry, Hippocampus};
use super::connectors::ConnectorsBlock;
use super::effective::Effective;
use cortex_models::{EmbeddingSettings, ProviderSettings};
use cortex_server::{Hooks, Webhooks};
use cortex_tools::{HostPort, McpServers};
use cortex_types::{ChannelMode, ChannelSettings};
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
    pub(crate) engram: AllowLocal,
    pub(crate) connector: AllowLocal,
    pub(crate) max_requests_per_key: u32,
    pub(crate) owner_requests_per_minute: u32,
    pub(crate) key_requests_per_minute: u32,
    pub(crate) open_requests_per_minute: u32,
    pub(crate) ollama_url: String,
    pub(crate) model: Option<String>,
    pub(crate) extraction_model: Option<String>,
    pub(crate) providers: Option<ProviderSettings>,
    pub(crate) embedding: Option<EmbeddingSettings>,
    pub(crate) scripted_model: Option<PathBuf>,
    pub(crate) price_file: Option<PathBuf>,
    pub(crate) model_timeout_ms: u64,
    pub(crate) model_idle_timeout_ms: u64,
    pub(crate) max_tokens_per_event: u64,
    pub(crate) max_tokens_per_day: u64,
    enabled: bool,
    default_mode: Option<ChannelMode>,
    channels: Option<BTreeMap<String, ChannelEntry>>,
    identities: BTreeMap<String, Vec<String>>,
    pub(crate) connectors: ConnectorsBlock,
    hippocampus: Option<Hippocampus>,
    hippocampus_enabled: Option<bool>,
    pub(crate) context_tokens: u32,
    pub(crate) active_window_size: u32,
    pub(crate) extraction_interval: u32,
    pub(crate) turn_ttl_days: u32,
    pub(crate) gardener_tokens_per_day: u64,
    pub(crate) outbox_poll_default_batch: u32,
    pub(crate) outbox_lease_seconds: u32,
    pub(crate) outbox_max_attempts: u32,
    pub(crate) inbox_max_attempts: u32,
    pub(crate) inbox_max_restarts: u32,
    pub(crate) max_parallel_topics: u32,
    pub(crate) max_queued_events: u64,
    #[serde(rename = "maxDatabaseMiB")]
    pub(crate) max_database_mib: u64,
    pub(crate) max_tool_rounds: u32,
    pub(crate) skill_dirs: Vec<PathBuf>,
    pub(crate) skill_config: Map<String, Value>,
    #[serde(rename = "skillHeapMiB")]
    pub(crate) skill_heap_mib: u32,
    pub(crate) skill_isolation: Isolation,
    pub(crate) undeclared_tools: Undeclared,
    pub(crate) mcp_servers: McpServers,
    pub(crate) mcp_start_seconds: u32,
    pub(crate) mcp_call_wait_seconds: u32,
    pub(crate) hooks: Hooks,
    pub(crate) webhooks: Webhooks,
    pub(crate) egress_allow: Vec<HostPort>,
    pub(crate) calendars: BTreeMap<String, String>,
    pub(crate) tool_timeout_ms: u64,
    pub(crate) approval_ttl_minutes: u32,
    pub(crate) approvals: Approvals,
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

    /// What channels may do, and who is who (D17, D18).
    pub(crate) fn channel_settings(&self) -> ChannelSettings {
        let unlisted = if self.channels.is_some() { ChannelMode::Off } else { ChannelMode::Live };
        let channels = self.channels.clone().unwrap_or_default();
        ChannelSettings {
            sources: BTreeMap::new(),
            enabled: self.enabled,
            default_mode: self.default_mode.unwrap_or(unlisted),
            channels: channels.into_iter().map(|(name, entry)| (name, entry.into())).collect(),
            identities: self.identities.clone(),
        }
    }

    pub(crate) fn memory_enabled(&self) -> bool {
        self.hippocampus.map(|memory| memory.enabled).or(self.hippocampus_enabled).unwrap_or(true)
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
        assert_eq!(settings.channel_settings(), ChannelSettings::default());
        assert!(settings.memory_enabled());
    }

    fn of_file(text: &str) -> Settings {
        let home = tempfile::tempdir().unwrap();
        std::fs::write(home.path().join("server.json"), text).unwrap();
        let effective = load(home.path(), &Flags::default(), &Environment::default()).unwrap();
        Settings::from_effective(&effective).unwrap()
    }

    #[test]
    fn the_block_of_the_seed_is_valid_as_it_stands() {
        let block = r#"{
          "enabled": true,
          "defaultMode": "off",
          "channels": {
            "webchat": "live",
            "whatsapp": "shadow",
            "router": "live"
          },
          "hippocampus": { "enabled": true }
        }"#;
        let settings = of_file(block);
        let channels = settings.channel_settings();
        assert!(channels.enabled && settings.memory_enabled());
        let modes = ["webchat", "whatsapp", "router", "telegram"].map(|channel| channels.mode_of(channel));
        assert_eq!(modes, [ChannelMode::Live, ChannelMode::Shadow, ChannelMode::Live, ChannelMode::Off]);
    }

    #[test]
    fn unlisted_channels_are_off_once_channels_are_listed() {
        let settings = of_file(
            r#"{"channels": {"x": {"mode": "shadow", "topic": "123"}}, "hippocampusEnabled": false}"#,
        );
        let channels = settings.channel_settings();
        assert_eq!(channels.default_mode, ChannelMode::Off);
        assert_eq!(channels.channels["x"].topic.as_deref(), Some("123"));
        assert!(!settings.memory_enabled());
    }
}
