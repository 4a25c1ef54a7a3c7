//! The server under test: the real one, in this process, with the baselines behind its own guard.

use crate::BenchError;
use crate::client::Target;
use axum::Router;
use cortex_models::{ModelsConfig, Timeouts, http_client};
use cortex_runtime::{EngramSetting, RuntimeConfig};
use cortex_server::{LocalClients, OwnerKey, RunningServer, ServeConfig};
use cortex_store::{Durability, StoreLimits};
use cortex_tools::{ToolboxConfig, tls_config};
use cortex_types::ChannelSettings;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Runtime;

const KEY: &str = "cxk_a_key_that_opens_nothing_but_a_benchmark";
/// As many as `cortex serve` has.
const WORKERS: usize = 2;

/// What the server does with the events it accepts.
#[derive(Debug, Clone)]
pub(crate) enum Turns {
    /// Nothing: events stay pending, so that a figure is of the intake alone.
    HeldBack,
    /// Answers up to this many topics at a time from a script.
    Scripted { parallel_topics: u32, script: PathBuf },
}

/// A running server on a free port of loopback.
pub(crate) struct Bed {
    runtime: Runtime,
    server: RunningServer,
    target: Target,
}

impl Bed {
    /// Starts a server whose home is `folder`; the database in it may have been filled before.
    pub(crate) fn start(folder: &Path, turns: Turns, baselines: Router) -> Result<Self, BenchError> {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(WORKERS).enable_all().build()?;
        let (parallel_topics, script) = match turns {
            Turns::HeldBack => (0, None),
            Turns::Scripted { parallel_topics, script } => (parallel_topics, Some(script)),
        };
        let config = ServeConfig {
            listen: ([127, 0, 0, 1], 0).into(),
            home: folder.to_owned(),
            database: database(folder),
            durability: Durability::Full,
            store_limits: StoreLimits::none(),
            owner_keys: vec![OwnerKey::new("bench", KEY)],
            allowed_hosts: Vec::new(),
            allowed_origins: Vec::new(),
            runtime: RuntimeConfig {
                max_parallel_topics: parallel_topics,
                max_tokens_per_event: None,
                drain: Duration::ZERO,
                // A script's answers are for events; what the gardener asks has a figure of its own.
                extraction_interval: 0,
                ..RuntimeConfig::for_workspace(folder.join("workspace"))
            },
            read_channels: Arc::new(|| Ok(ChannelSettings::default())),
            models: ModelsConfig { scripted: script, ..offline_models()? },
            extraction_models: None,
            engram: EngramSetting::Off,
            allow_local: LocalClients { engram: false, connectors: true },
            caller_limits: Default::default(),
            tools: ToolboxConfig::built_in(folder.join("data")),
            hooks: Default::default(),
            webhooks: Default::default(),
            connectors: Default::default(),
            more_routes: baselines,
        };
        let server = runtime.block_on(cortex_server::start(config))?;
        let target = Target { address: server.address(), key: KEY.to_owned() };
        Ok(Self { runtime, server, target })
    }

    pub(crate) fn target(&self) -> Target {
        self.target.clone()
    }

    pub(crate) fn stop(self) {
        self.runtime.block_on(self.server.stop());
    }
}

/// Where the database of a home is.
pub(crate) fn database(folder: &Path) -> PathBuf {
    folder.join("cortex.db")
}

fn offline_models() -> Result<ModelsConfig, BenchError> {
    let tls = tls_config().map_err(|error| BenchError::Broken(format!("TLS cannot be set up: {error}")))?;
    Ok(ModelsConfig::offline(http_client(&Timeouts::default(), tls)?))
}
