//! A connector at work: it listens, delivers and shows that somebody writes, until it is told to stop.

use super::admission::{GroupPolicy, Tries};
use super::delivery::InHand;
use super::notebook::{Notebook, NotebookError};
use super::pace::Pacer;
use super::platform::Platform;
use super::typing::Followed;
use cortex_api::Client;
use cortex_types::SystemClock;
use std::collections::{BTreeSet, HashMap};
use std::sync::Mutex;
use std::time::Duration;
use tokio::sync::{Notify, mpsc, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Events whose typing is waiting to be shown; one more is not shown.
const FOLLOWED_MAX: usize = 256;

/// What the owner decides about a connector.
#[derive(Debug, Clone)]
pub struct ConnectorSettings {
    /// The platform's ids of the people who are heard; empty means nobody.
    pub allow: BTreeSet<String>,
    pub groups: GroupPolicy,
    /// How often to look for messages when nothing else says that there are any.
    pub poll_every: Duration,
    /// How long to wait for another listener with the same account to go: a person must see to it.
    pub conflict_wait: Duration,
}

impl Default for ConnectorSettings {
    fn default() -> Self {
        Self {
            allow: BTreeSet::new(),
            groups: GroupPolicy::default(),
            poll_every: Duration::from_millis(500),
            conflict_wait: Duration::from_secs(15),
        }
    }
}

/// Why a connector ended by itself.
#[derive(Debug, thiserror::Error)]
pub enum ConnectorFailure {
    /// Starting again changes nothing until a person does.
    #[error("{0}")]
    Misconfigured(String),
    #[error(transparent)]
    Notebook(#[from] NotebookError),
}

/// One platform, one server, one notebook.
pub struct Connector<P> {
    pub(super) platform: P,
    pub(super) client: Client,
    pub(super) notebook: Notebook,
    pub(super) settings: ConnectorSettings,
    pub(super) clock: SystemClock,
    pub(super) pacer: Mutex<Pacer>,
    pub(super) tries: Mutex<Tries>,
    pub(super) in_hand: Mutex<InHand>,
    /// Topics whose first message could not be delivered, and when; see `delivery`.
    pub(super) troubled: Mutex<HashMap<String, Instant>>,
    /// Whether the platform answered when we listened last.
    pub(super) is_reachable: watch::Sender<bool>,
    /// Something may be in the outbox.
    pub(super) wake: Notify,
    pub(super) follow: mpsc::Sender<Followed>,
    pub(super) followed: Option<mpsc::Receiver<Followed>>,
    pub(super) stop: CancellationToken,
}

impl<P: Platform> Connector<P> {
    pub fn new(
        platform: P,
        client: Client,
        notebook: Notebook,
        settings: ConnectorSettings,
        stop: CancellationToken,
    ) -> Self {
        let (follow, followed) = mpsc::channel(FOLLOWED_MAX);
        let pacer = Mutex::new(Pacer::new(platform.rules().pace));
        Self {
            platform,
            client,
            notebook,
            settings,
            clock: SystemClock::start(),
            pacer,
            tries: Mutex::default(),
            in_hand: Mutex::default(),
            troubled: Mutex::default(),
            is_reachable: watch::Sender::new(true),
            wake: Notify::new(),
            follow,
            followed: Some(followed),
            stop,
        }
    }

    /// Runs until it is stopped; the part in hand is finished then, and nothing that was heard is lost.
    pub async fn run(mut self) -> Result<(), ConnectorFailure> {
        let followed = self.followed.take();
        let listening = async {
            let heard = self.listen().await;
            self.stop.cancel();
            heard
        };
        let (heard, (), ()) = tokio::join!(listening, self.deliver(), self.accompany(followed));
        heard
    }

    pub(super) fn is_allowed(&self, user: &str) -> bool {
        self.settings.allow.contains(user) || self.notebook.read(|pages| pages.allowed.contains(user))
    }

    pub(super) async fn pause(&self, duration: Duration) -> Result<(), Stopped> {
        pause(duration, &self.stop).await
    }
}

/// Waits, unless it is told to stop meanwhile.
pub(crate) async fn pause(duration: Duration, stop: &CancellationToken) -> Result<(), Stopped> {
    tokio::select! {
        () = stop.cancelled() => Err(Stopped),
        () = tokio::time::sleep(duration) => Ok(()),
    }
}

/// It was told to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stopped;
