//! A Telegram connector between the test's own Bot API and a real server.

use crate::bot_api::{BotApi, TOKEN};
use crate::door::Door;
use cortex_api::Client;
use cortex_connectors::{
    Connector, ConnectorFailure, ConnectorSettings, GroupPolicy, Notebook, PaceRules, Rate, Telegram,
    TelegramSettings,
};
use cortex_testkit::{OWNER_KEY, RunningTestServer, ServerSetup, eventually};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;
use tempfile::TempDir;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// The user who is allowed.
pub(crate) const ADA: i64 = 42;
pub(crate) const STRANGER: i64 = 666;

pub(crate) struct Stage {
    pub(crate) api: BotApi,
    pub(crate) server: RunningTestServer,
    pub(crate) door: Door,
    home: TempDir,
}

/// How a test wants its connector.
pub(crate) struct Wish {
    pub(crate) allow: Vec<i64>,
    pub(crate) groups: GroupPolicy,
    pub(crate) poll: Duration,
    pub(crate) chat_pace: Rate,
}

impl Default for Wish {
    fn default() -> Self {
        Self {
            allow: vec![ADA],
            groups: GroupPolicy::Mention,
            poll: Duration::from_secs(20),
            chat_pace: Rate { count: 1_000, per: Duration::from_millis(1) },
        }
    }
}

/// A connector at work.
pub(crate) struct RunningConnector {
    stop: CancellationToken,
    task: JoinHandle<Result<(), ConnectorFailure>>,
}

impl RunningConnector {
    pub(crate) async fn stop(self) {
        self.stop.cancel();
        self.task.await.unwrap().unwrap();
    }

    /// As a kill would: it gets to do nothing more.
    pub(crate) async fn kill(self) {
        self.task.abort();
        assert!(self.task.await.unwrap_err().is_cancelled());
    }

    /// How it ended by itself.
    pub(crate) async fn ended(self) -> ConnectorFailure {
        self.task.await.unwrap().unwrap_err()
    }
}

impl Stage {
    pub(crate) async fn with(setup: ServerSetup) -> Self {
        let server = setup.start().await;
        let door = Door::new().await;
        door.open_to(server.address());
        Self { api: BotApi::start().await, server, door, home: tempfile::tempdir().unwrap() }
    }

    pub(crate) async fn echoing() -> Self {
        Self::with(ServerSetup::echoing()).await
    }

    pub(crate) fn folder(&self) -> PathBuf {
        self.home.path().join("connectors/telegram")
    }

    /// What the connector has noted.
    pub(crate) fn noted(&self) -> Value {
        let text = std::fs::read_to_string(self.folder().join("state.json")).unwrap_or("{}".to_owned());
        serde_json::from_str(&text).unwrap()
    }

    pub(crate) fn connect(&self) -> RunningConnector {
        self.connect_as(Wish::default())
    }

    pub(crate) fn connect_as(&self, wish: Wish) -> RunningConnector {
        let fast = Rate { count: 1_000, per: Duration::from_millis(1) };
        let telegram = Telegram::new(TelegramSettings {
            api_url: self.api.url.clone(),
            poll: wish.poll,
            file_bytes_max: 1_000,
            pace: PaceRules { chat: wish.chat_pace, group: fast, overall: fast },
            ..TelegramSettings::new(TOKEN.to_owned().into())
        })
        .unwrap();
        let client = Client::new(&self.door.url, Some(OWNER_KEY.to_owned().into())).unwrap();
        let settings = ConnectorSettings {
            allow: wish.allow.iter().map(ToString::to_string).collect::<BTreeSet<_>>(),
            groups: wish.groups,
            poll_every: Duration::from_millis(20),
            conflict_wait: Duration::from_millis(20),
        };
        let stop = CancellationToken::new();
        let notebook = Notebook::open(&self.folder()).unwrap();
        let task = tokio::spawn(Connector::new(telegram, client, notebook, settings, stop.clone()).run());
        RunningConnector { stop, task }
    }

    /// Every event that the server took from Telegram, oldest first.
    pub(crate) async fn events(&self) -> Vec<Value> {
        let list = self.server.get("/api/v2/inbox?limit=500").await.json();
        let mut rows = list["items"].as_array().unwrap().clone();
        rows.reverse();
        rows
    }

    /// The events, once there are so many.
    pub(crate) async fn events_after(&self, count: usize) -> Vec<Value> {
        eventually(format!("{count} events"), async || {
            let events = self.events().await;
            (events.len() >= count).then_some(events)
        })
        .await
    }

    /// The first row of the outbox of which this is so, once there is one.
    pub(crate) async fn outbox_when(&self, what: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        eventually(what, async || {
            let list = self.server.get("/api/v2/outbox").await.json();
            list["items"].as_array().unwrap().iter().find(|row| is_so(row)).cloned()
        })
        .await
    }
}
