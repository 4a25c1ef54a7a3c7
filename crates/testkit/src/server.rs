//! The whole server in the test's own process, on a free port of loopback and a temporary home.

#![expect(clippy::expect_used, reason = "tests fail by panicking")]

use crate::client::{Answer, Request};
use crate::frozen_time::FrozenTime;
use crate::models::{TestModels, install_tls};
use crate::patience::eventually;
use crate::store::memory_folder;
use axum::Router;
use cortex_api::Client;
use cortex_runtime::{EngramSetting, RuntimeConfig, TokenKey};
use cortex_server::{CallerLimits, LocalClients, OwnerKey, RunningServer, ServeConfig, start_with_clock};
use cortex_store::{Durability, StoreLimits};
use cortex_tools::ToolboxConfig;
use cortex_types::{Clock, SystemClock};
use serde_json::{Value, json};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::TempDir;

/// The key that opens a test server.
pub const OWNER_KEY: &str = "owner-key-of-the-tests-0123456789abcdef";

/// How a test wants its server.
#[derive(Clone)]
pub struct ServerSetup {
    models: TestModels,
    clock: Arc<dyn Clock>,
    flow: Arc<dyn Fn(&mut RuntimeConfig) + Send + Sync>,
    allowed_hosts: Vec<String>,
    allowed_origins: Vec<String>,
    more_routes: Router,
    tools: Arc<dyn Fn(&mut ToolboxConfig) + Send + Sync>,
    engram: EngramSetting,
    allow_local: LocalClients,
    caller_limits: CallerLimits,
    store_limits: StoreLimits,
    listen: Ipv4Addr,
    hooks: Value,
    webhooks: Value,
    owner_key: String,
}

impl ServerSetup {
    pub fn new(models: TestModels) -> Self {
        Self {
            models,
            clock: Arc::new(SystemClock::start()),
            flow: Arc::new(|_| {}),
            allowed_hosts: Vec::new(),
            allowed_origins: Vec::new(),
            more_routes: Router::new(),
            tools: Arc::new(|_| {}),
            engram: EngramSetting::Off,
            allow_local: LocalClients { engram: false, connectors: true },
            caller_limits: CallerLimits::default(),
            store_limits: StoreLimits::none(),
            listen: Ipv4Addr::LOCALHOST,
            hooks: json!({}),
            webhooks: json!({}),
            owner_key: OWNER_KEY.to_owned(),
        }
    }

    /// Events are accepted and never answered, so that a test sees what waits.
    pub fn never_answering() -> Self {
        Self::scripted(json!({ "otherwise": { "error": { "kind": "hang" } } }))
    }

    /// Every event is answered with `You said: <its text>`.
    pub fn echoing() -> Self {
        Self::scripted(json!({ "otherwise": { "say": "You said: {{user}}" } }))
    }

    pub fn scripted(script: Value) -> Self {
        Self::new(TestModels::Script(script))
    }

    pub fn at(mut self, time: &FrozenTime) -> Self {
        self.clock = time.clock();
        self
    }

    pub fn flow(mut self, change: impl Fn(&mut RuntimeConfig) + Send + Sync + 'static) -> Self {
        self.flow = Arc::new(change);
        self
    }

    pub fn allowing(mut self, host: &str, origin: &str) -> Self {
        self.allowed_hosts.push(host.to_owned());
        self.allowed_origins.push(origin.to_owned());
        self
    }

    pub fn more_routes(mut self, routes: Router) -> Self {
        self.more_routes = routes;
        self
    }

    /// Changes what is in the toolbox.
    pub fn tools(mut self, change: impl Fn(&mut ToolboxConfig) + Send + Sync + 'static) -> Self {
        self.tools = Arc::new(change);
        self
    }

    /// Programs on this machine may use `/engram` without a key.
    pub fn engram_for_local_clients(mut self) -> Self {
        self.allow_local.engram = true;
        self
    }

    /// Connectors on this machine need a key like everybody else.
    pub fn connectors_need_a_key(mut self) -> Self {
        self.allow_local.connectors = false;
        self
    }

    /// Callers may ask for so much at once, and so often.
    pub fn store_limits(mut self, limits: StoreLimits) -> Self {
        self.store_limits = limits;
        self
    }

    pub fn caller_limits(mut self, limits: CallerLimits) -> Self {
        self.caller_limits = limits;
        self
    }

    /// Other machines could reach the server; the test itself still comes over loopback.
    pub fn on_every_address(mut self) -> Self {
        self.listen = Ipv4Addr::UNSPECIFIED;
        self
    }

    /// Webhooks that come in, as the settings have them.
    pub fn hooks(mut self, hooks: Value) -> Self {
        self.hooks = hooks;
        self
    }

    /// Webhooks that go out, as the settings have them.
    pub fn webhooks(mut self, webhooks: Value) -> Self {
        self.webhooks = webhooks;
        self
    }

    /// Memory is kept by the Engram service that is meant.
    pub fn engram(mut self, setting: EngramSetting) -> Self {
        self.engram = setting;
        self
    }

    pub async fn start(self) -> RunningTestServer {
        let home = memory_folder();
        let running = self.start_in(home.path()).await;
        RunningTestServer { setup: self, home, running: Some(running) }
    }

    async fn start_in(&self, home: &Path) -> RunningServer {
        let mut runtime = RuntimeConfig::for_workspace(home.join("workspace"));
        // A test that stops its server does not wait for a model that never answers.
        runtime.drain = std::time::Duration::ZERO;
        // A script's answers are for the events of a test, unless it wants them extracted.
        runtime.extraction_interval = 0;
        // A server that is started again makes the same tokens.
        runtime.token_key = TokenKey::new(b"of the tests");
        (self.flow)(&mut runtime);
        let mut tools = ToolboxConfig::built_in(home.join("data"));
        (self.tools)(&mut tools);
        let (flow, workspace) = (Arc::clone(&self.flow), runtime.workspace.clone());
        let config = ServeConfig {
            listen: SocketAddr::from((self.listen, 0)),
            home: home.to_owned(),
            database: home.join("cortex.db"),
            durability: Durability::Full,
            store_limits: self.store_limits,
            owner_keys: vec![OwnerKey::new("owner", &self.owner_key)],
            allowed_hosts: self.allowed_hosts.clone(),
            allowed_origins: self.allowed_origins.clone(),
            runtime,
            // What a test sets for the flow may change while its server runs.
            read_channels: Arc::new(move || {
                let mut read_again = RuntimeConfig::for_workspace(workspace.clone());
                flow(&mut read_again);
                Ok(read_again.channels)
            }),
            models: self.models.config(home),
            extraction_models: None,
            engram: self.engram.clone(),
            allow_local: self.allow_local,
            caller_limits: self.caller_limits,
            tools,
            hooks: serde_json::from_value(self.hooks.clone()).expect("the hooks are in order"),
            webhooks: serde_json::from_value(self.webhooks.clone()).expect("the webhooks are in order"),
            connectors: Default::default(),
            more_routes: self.more_routes.clone(),
        };
        start_with_clock(config, Arc::clone(&self.clock)).await.expect("the server starts")
    }
}

/// A server at work in a home that goes away with it.
pub struct RunningTestServer {
    setup: ServerSetup,
    home: TempDir,
    running: Option<RunningServer>,
}

impl RunningTestServer {
    pub fn address(&self) -> SocketAddr {
        let port = self.running.as_ref().expect("it runs between its calls").address().port();
        SocketAddr::from((Ipv4Addr::LOCALHOST, port))
    }

    pub fn database(&self) -> PathBuf {
        self.home.path().join("cortex.db")
    }

    pub fn home(&self) -> &Path {
        self.home.path()
    }

    /// The typed client with the owner's key.
    pub fn client(&self) -> Client {
        install_tls();
        Client::new(&format!("http://{}", self.address()), Some(self.setup.owner_key.clone().into()))
            .expect("a client can be made")
    }

    pub fn request(&self, method: &str, path: &str) -> Request {
        Request::new(self.address(), &self.setup.owner_key, method, path)
    }

    pub async fn get(&self, path: &str) -> Answer {
        self.request("GET", path).send().await
    }

    pub async fn post(&self, path: &str, body: &Value) -> Answer {
        self.request("POST", path).json(body).send().await
    }

    /// Hands in an event that must be new, and gives its id.
    #[track_caller]
    pub fn accept(&self, event: &Value) -> impl Future<Output = String> {
        let posting = self.request("POST", "/ingest").json(event);
        async move {
            let answer = posting.send().await;
            assert_eq!(answer.status, 202, "{}", answer.text());
            answer.json()["eventId"].as_str().expect("an id").to_owned()
        }
    }

    /// The event's row once its turn has ended.
    #[track_caller]
    pub fn ended(&self, id: &str) -> impl Future<Output = Value> {
        let showing = self.request("GET", &format!("/api/v2/inbox/{id}"));
        eventually(format!("the end of {id}"), move || {
            let showing = showing.clone();
            async move {
                let row = showing.send().await.json();
                (row["status"] == "done" || row["status"] == "failed").then_some(row)
            }
        })
    }

    /// Hands in an event and waits until its turn has ended.
    pub async fn answered(&self, event: &Value) -> String {
        let id = self.accept(event).await;
        self.ended(&id).await;
        id
    }

    /// Polls with this body and gives the messages.
    pub async fn poll(&self, body: &Value) -> Vec<Value> {
        let answer = self.post("/outbox/poll", body).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json()["messages"].as_array().expect("messages").clone()
    }

    /// A clean stop and a start on the same home; the port may be another.
    pub async fn restart(&mut self) {
        self.stop().await;
        self.running = Some(self.setup.start_in(self.home.path()).await);
    }

    /// The same with another key of the owner, which is the only one then.
    pub async fn restart_with_owner_key(&mut self, key: &str) {
        self.setup.owner_key = key.to_owned();
        self.restart().await;
    }

    /// A clean stop; the home stays.
    pub async fn stop(&mut self) {
        if let Some(running) = self.running.take() {
            running.stop().await;
        }
    }
}
