//! What the server is told at its start.

use crate::auth::OwnerKey;
use crate::board::ConnectorBoard;
use crate::guard::LocalClients;
use crate::hook::Hooks;
use crate::share::CallerLimits;
use crate::webhook::Webhooks;
use axum::Router;
use cortex_models::ModelsConfig;
use cortex_runtime::{EngramSetting, RuntimeConfig};
use cortex_store::{Durability, StoreLimits};
use cortex_tools::ToolboxConfig;
use cortex_types::ChannelSettings;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

/// Where the settings of channels come from.
pub type ReadChannels = Arc<dyn Fn() -> Result<ChannelSettings, String> + Send + Sync>;

/// Everything `start` needs. Nothing here is read from the environment.
pub struct ServeConfig {
    pub listen: SocketAddr,
    /// The home whose lock the server holds.
    pub home: PathBuf,
    pub database: PathBuf,
    pub durability: Durability,
    /// How much the database may hold.
    pub store_limits: StoreLimits,
    /// Keys that open every route.
    pub owner_keys: Vec<OwnerKey>,
    /// Host names besides loopback that requests may name.
    pub allowed_hosts: Vec<String>,
    /// Origins besides this server's own that browsers may come from.
    pub allowed_origins: Vec<String>,
    pub runtime: RuntimeConfig,
    /// Reads the settings of channels again, as they are now; an error says what is wrong with them.
    pub read_channels: ReadChannels,
    pub models: ModelsConfig,
    /// The models that extract facts, where they are others.
    pub extraction_models: Option<ModelsConfig>,
    /// The memory service that is used instead of the built-in memory.
    pub engram: EngramSetting,
    /// Which programs on this machine need no key.
    pub allow_local: LocalClients,
    /// What callers may ask for at once, and how often.
    pub caller_limits: CallerLimits,
    pub tools: ToolboxConfig,
    /// Webhooks that come in.
    pub hooks: Hooks,
    /// Webhooks that go out.
    pub webhooks: Webhooks,
    /// Where whoever runs connectors writes how they are.
    pub connectors: ConnectorBoard,
    /// More routes behind the same guard; the benchmarks put their baselines here.
    pub more_routes: Router,
}
