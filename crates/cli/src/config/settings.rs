//! The settings as the rest of the program uses them: typed, complete, checked.

use super::effective::Effective;
use cortex_models::ProviderSettings;
use secrecy::SecretString;
use serde::Deserialize;
use serde_json::{Map, Value};
use std::path::PathBuf;

/// One field for each key of the table; a test compares the two.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Settings {
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) allow_remote: bool,
    pub(crate) allowed_hosts: Vec<String>,
    pub(crate) allowed_origins: Vec<String>,
    pub(crate) ingest_api_key: Option<SecretString>,
    pub(crate) synapse_url: String,
    pub(crate) engram_url: String,
    pub(crate) ollama_url: String,
    pub(crate) model: Option<String>,
    pub(crate) extraction_model: Option<String>,
    pub(crate) providers: Option<ProviderSettings>,
    pub(crate) scripted_model: Option<PathBuf>,
    pub(crate) price_file: Option<PathBuf>,
    pub(crate) model_timeout_ms: u64,
    pub(crate) model_idle_timeout_ms: u64,
    pub(crate) max_tokens_per_event: u64,
    pub(crate) max_tokens_per_day: u64,
    pub(crate) active_window_size: u32,
    pub(crate) extraction_interval: u32,
    pub(crate) turn_ttl_days: u32,
    pub(crate) scheduler_tick_seconds: u32,
    pub(crate) scheduler_timezone: String,
    pub(crate) outbox_poll_default_batch: u32,
    pub(crate) outbox_lease_seconds: u32,
    pub(crate) outbox_max_attempts: u32,
    pub(crate) inbox_max_attempts: u32,
    pub(crate) inbox_max_restarts: u32,
    pub(crate) max_parallel_topics: u32,
    pub(crate) max_tool_rounds: u32,
    pub(crate) skill_dirs: Vec<PathBuf>,
    pub(crate) tool_timeout_ms: u64,
    pub(crate) drain_seconds: u64,
    pub(crate) log_level: String,
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
    fn every_key_of_the_table_is_a_field_and_every_field_a_key() {
        let home = tempfile::tempdir().unwrap();
        let effective = load(home.path(), &Flags::default(), &Environment::default()).unwrap();
        let settings = Settings::from_effective(&effective).unwrap();
        assert_eq!((settings.port, settings.outbox_max_attempts), (7751, 10));

        let mut fields: Map<String, Value> =
            effective.entries.iter().map(|entry| (entry.key.name.to_owned(), entry.value.clone())).collect();
        fields.insert("oneMore".to_owned(), Value::Null);
        assert!(serde_json::from_value::<Settings>(Value::Object(fields)).is_err());
    }
}
