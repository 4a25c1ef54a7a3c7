//! Starts and stops the server: lock, store, recovery, socket, models, pump; and the same backwards.

use crate::auth::KeyRing;
use crate::config::{ReadChannels, ServeConfig};
use crate::connector::{ConnectorDoor, Hub, HubParts};
use crate::guard::Doors;
use crate::share::Shares;
use crate::state::{App, AppState};
use crate::webhook::{WebhookSender, Webhooks};
use crate::{listener, metrics, routes, watch};
use cortex_bus::Bus;
use cortex_models::{Models, ModelsConfig, ModelsError};
use cortex_runtime::{ChannelDesk, EngramClient, EngramError, EngramSetting, Runtime, RuntimeConfig};
use cortex_store::{HomeLock, KeyRow, LockError, OpenError, Store, StoreConfig, StoreError, StoreThread};
use cortex_tools::{RegistryError, StoredTrust, Toolbox, ToolboxError};
use cortex_types::{Clock, SystemClock};
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::net::{TcpListener, TcpSocket};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Connections that may wait to be accepted; the kernel may allow fewer.
const LISTEN_QUEUE_MAX: u32 = 4_096;
/// How long sockets of connectors may take to end once the server stops.
const SOCKETS_GOODBYE: Duration = Duration::from_secs(5);

/// Why the server did not start; each text says what to do.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(transparent)]
    Lock(#[from] LockError),
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("cannot listen on {address}: {source}; choose another with --port")]
    Listen { address: SocketAddr, source: std::io::Error },
    #[error(transparent)]
    Models(#[from] ModelsError),
    #[error(transparent)]
    Engram(#[from] EngramError),
    #[error(transparent)]
    Tools(#[from] ToolboxError),
    #[error(transparent)]
    Registry(#[from] RegistryError),
}

/// A server at work. Dropping it stops nothing; call `stop`.
pub struct RunningServer {
    address: SocketAddr,
    channels: ChannelDesk,
    read_channels: ReadChannels,
    /// Ends the doors first, so that nothing new comes in while turns finish.
    stop_doors: CancellationToken,
    stop_turns: CancellationToken,
    /// Everything that runs until one of the two; each ends by itself then.
    tasks: Vec<JoinHandle<()>>,
    toolbox: Arc<Toolbox>,
    store: StoreThread,
    lock: HomeLock,
}

/// Starts everything; returns once the socket accepts.
pub async fn start(config: ServeConfig) -> Result<RunningServer, StartError> {
    start_with_clock(config, Arc::new(SystemClock::start())).await
}

/// The same by another clock, so that a test need not wait for a lease to end.
pub async fn start_with_clock(
    config: ServeConfig,
    clock: Arc<dyn Clock>,
) -> Result<RunningServer, StartError> {
    let lock = HomeLock::acquire(&config.home)?;
    let (store, store_thread) = Store::open(store_config(&config))?;
    let keys = keep_keys(&store, &config, &*clock).await?;
    let bus = Bus::default();
    let trust = StoredTrust { store: store.clone(), clock: Arc::clone(&clock) };
    let (toolbox, tools) = Toolbox::open(config.tools, Arc::new(trust)).await?;
    let toolbox = Arc::new(toolbox);
    let flow = with_engram(config.runtime, &config.engram, &config.models).await?;
    let runtime = Runtime::new(flow, store.clone(), bus.clone(), Arc::clone(&clock), tools)?;
    recover(&runtime).await?;
    let (listener, address) = listen(config.listen).await?;
    let (stop_doors, stop_turns) = (CancellationToken::new(), CancellationToken::new());
    let (read_channels, stop_hub) = (Arc::clone(&config.read_channels), CancellationToken::new());
    let (hub, hub_work) = Hub::new(hub_parts(&runtime, &store, &clock, &stop_hub));
    let app = Arc::new(App {
        read_channels: config.read_channels,
        runtime: runtime.clone(),
        toolbox: Arc::clone(&toolbox),
        connectors: config.connectors,
        intake: runtime.intake(),
        outbox: runtime.outbox(),
        store: store.clone(),
        bus,
        clock: Arc::clone(&clock),
        keys: KeyRing::new(&keys, store.keys().of_connectors().await?),
        hooks: config.hooks,
        connector_door: ConnectorDoor::assemble(hub, &store, &clock).await?,
        followed: Default::default(),
        doors: Doors::new(address, &config.allowed_hosts, &config.allowed_origins, config.allow_local),
        shares: Shares::new(config.caller_limits),
        metrics: metrics::handle(),
        address,
        started_at: clock.now(),
        models: OnceLock::new(),
        gardener: OnceLock::new(),
        stopping: stop_doors.clone(),
    });
    let router = routes::router(Arc::clone(&app), config.more_routes);
    let client = config.models.client.clone();
    let (models, extracting) = both_models(config.models, config.extraction_models, clock).await?;
    drop(app.models.set(Arc::clone(&models)));
    let gardener = runtime.gardener(extracting);
    drop(app.gardener.set(gardener.clone()));
    let channels = runtime.channels();
    let mut tasks = spawn_webhooks(config.webhooks, &client, &app);
    let (keeper_stop, garden_stop) = (stop_doors.clone(), stop_doors.clone());
    tasks.extend([
        tokio::spawn(listener::serve(listener, router, stop_doors.clone())),
        tokio::spawn(runtime.pump(models).run(stop_turns.clone())),
        tokio::spawn(async move { runtime.keep_time(keeper_stop).await }),
        tokio::spawn(async move { gardener.run(garden_stop).await }),
        tokio::spawn(hub_work),
        tokio::spawn(stop_hub_last(Arc::clone(&app), stop_hub)),
        tokio::spawn(watch::store(store, stop_doors.clone())),
    ]);
    Ok(RunningServer {
        address,
        channels,
        read_channels,
        stop_doors,
        stop_turns,
        tasks,
        toolbox,
        store: store_thread,
        lock,
    })
}

fn store_config(config: &ServeConfig) -> StoreConfig {
    let (path, durability) = (config.database.clone(), config.durability);
    StoreConfig { path, durability, limits: config.store_limits }
}

async fn listen(wanted: SocketAddr) -> Result<(TcpListener, SocketAddr), StartError> {
    let refused = |source| StartError::Listen { address: wanted, source };
    let listener = listening(wanted).map_err(refused)?;
    let address = listener.local_addr().map_err(refused)?;
    Ok((listener, address))
}

/// As `TcpListener::bind`, with a longer queue: when it is full, the kernel drops those who knock, and the owner among
/// them tries again only after a second.
fn listening(wanted: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = if wanted.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    socket.set_reuseaddr(true)?;
    socket.bind(wanted)?;
    socket.listen(LISTEN_QUEUE_MAX)
}

/// Sockets say what they wrote before the hub gives back what nobody has.
async fn stop_hub_last(app: AppState, stop_hub: CancellationToken) {
    app.stopping.cancelled().await;
    if tokio::time::timeout(SOCKETS_GOODBYE, app.connector_door.all_left()).await.is_err() {
        tracing::warn!("Sockets of connectors that did not end in time were left");
    }
    stop_hub.cancel();
}

/// Takes up what the last run left, before anything new comes in.
async fn recover(runtime: &Runtime) -> Result<(), StoreError> {
    let boot = runtime.recover().await?;
    tracing::info!(
        requeued = boot.recovered.requeued,
        failed = boot.recovered.failed,
        clamped = boot.clamped,
        "The inbox is recovered"
    );
    Ok(())
}

impl RunningServer {
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Reads the settings of channels again and puts them in force; those before stay when that fails.
    pub async fn reload_channels(&self) -> Result<(), String> {
        let settings = (self.read_channels)()?;
        self.channels.apply(settings).await.map(drop).map_err(|error| error.to_string())
    }

    /// Stops accepting, lets turns finish or parks them, and closes the store.
    pub async fn stop(self) {
        self.stop_doors.cancel();
        self.stop_turns.cancel();
        for task in self.tasks {
            if let Err(error) = task.await {
                tracing::error!(%error, "A part of the server ended by a panic");
            }
        }
        self.toolbox.stop().await;
        let store = self.store;
        if tokio::task::spawn_blocking(move || store.close()).await.is_err() {
            tracing::error!("The store could not be waited for");
        }
        drop(self.lock);
    }
}

/// Stores the digests of the owner's keys and returns all keys that open.
async fn keep_keys(
    store: &Store,
    config: &ServeConfig,
    clock: &dyn Clock,
) -> Result<Vec<KeyRow>, StoreError> {
    for key in &config.owner_keys {
        store.keys().put(key.row(), clock.now()).await?;
    }
    // Only the keys this start was given: an older digest in the table opens nothing any more, nor does a session that it
    // opened.
    let keys: Vec<KeyRow> = config.owner_keys.iter().map(crate::auth::OwnerKey::row).collect();
    let digests = keys.iter().map(|key| key.sha256).collect();
    let closed = store.connectors().close_sessions_of_other_owners(digests).await?;
    if closed > 0 {
        tracing::info!(closed, "Sessions that were opened with another key of the owner are closed");
    }
    Ok(keys)
}

/// A memory service that is meant and found takes the place of the built-in memory.
async fn with_engram(
    mut flow: RuntimeConfig,
    setting: &EngramSetting,
    models: &ModelsConfig,
) -> Result<RuntimeConfig, EngramError> {
    if let Some(engram) = EngramClient::find(setting, models.client.clone()).await? {
        tracing::info!(?engram, "Memory is kept by an Engram service");
        flow.engram = Some(engram);
    }
    Ok(flow)
}

/// The models that answer, and those that look for facts.
async fn both_models(
    answering: ModelsConfig,
    extracting: Option<ModelsConfig>,
    clock: Arc<dyn Clock>,
) -> Result<(Arc<Models>, Arc<Models>), ModelsError> {
    let answering = chosen_models(answering, Arc::clone(&clock)).await?;
    let extracting = match extracting {
        Some(others) => chosen_models(others, clock).await?,
        None => Arc::clone(&answering),
    };
    Ok((answering, extracting))
}

async fn chosen_models(config: ModelsConfig, clock: Arc<dyn Clock>) -> Result<Arc<Models>, ModelsError> {
    let models = Models::assemble(config, clock).await?;
    for note in models.notes() {
        tracing::warn!(note, "About the models");
    }
    Ok(Arc::new(models))
}

fn hub_parts(runtime: &Runtime, store: &Store, clock: &Arc<dyn Clock>, stop: &CancellationToken) -> HubParts {
    HubParts { store: store.clone(), outbox: runtime.outbox(), clock: Arc::clone(clock), stop: stop.clone() }
}

/// Sends what the outbox has for receivers, until the doors close.
fn spawn_webhooks(webhooks: Webhooks, client: &reqwest::Client, app: &App) -> Vec<JoinHandle<()>> {
    let spawn = |webhook| {
        let sender = WebhookSender {
            webhook,
            outbox: app.outbox.clone(),
            store: app.store.clone(),
            client: client.clone(),
            clock: Arc::clone(&app.clock),
        };
        tokio::spawn(sender.run(app.stopping.clone()))
    };
    webhooks.into_list().into_iter().map(spawn).collect()
}
