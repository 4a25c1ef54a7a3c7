//! The hub: one dispatcher for each source that has sockets, woken when its source has something to claim.

use super::dispatch::{Dispatcher, Member, Report};
use cortex_runtime::OutboxDesk;
use cortex_store::{ConnectorBinding, Ring, Store};
use cortex_types::Clock;
use std::collections::HashMap;
use std::sync::Arc;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// Orders that may wait for the hub.
const ORDERS_MAX: usize = 256;
/// Reports that may wait for a dispatcher.
const REPORTS_MAX: usize = 1_024;

/// Handle of the hub; clones share it.
#[derive(Clone)]
pub(crate) struct Hub(mpsc::Sender<Order>);

pub(super) enum Order {
    Join {
        binding: ConnectorBinding,
        member: Member,
        joined: oneshot::Sender<mpsc::Sender<Report>>,
    },
    /// A dispatcher has no member left, after so many that joined.
    Idle {
        source: String,
        joins: u64,
    },
}

/// What a dispatcher needs.
#[derive(Clone)]
pub(crate) struct HubParts {
    pub(crate) store: Store,
    pub(crate) outbox: OutboxDesk,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) stop: CancellationToken,
}

/// One dispatcher, as the hub knows it.
struct Entry {
    reports: mpsc::Sender<Report>,
    bell: Arc<Notify>,
    joins: u64,
}

impl Hub {
    /// The hub, and the work that it does until it is stopped.
    pub(crate) fn new(parts: HubParts) -> (Self, impl Future<Output = ()> + Send + use<>) {
        let (orders, incoming) = mpsc::channel(ORDERS_MAX);
        let hub = Self(orders);
        let work = run(parts, incoming, hub.clone());
        (hub, work)
    }

    /// Adds a socket to those of its source; none when the server stops.
    pub(super) async fn join(
        &self,
        binding: ConnectorBinding,
        member: Member,
    ) -> Option<mpsc::Sender<Report>> {
        let (joined, answer) = oneshot::channel();
        self.0.send(Order::Join { binding, member, joined }).await.ok()?;
        answer.await.ok()
    }

    pub(super) fn is_idle(&self, source: String, joins: u64) {
        // The hub may be waiting for this very dispatcher: one that is busy is told another time.
        drop(self.0.try_send(Order::Idle { source, joins }));
    }
}

async fn run(parts: HubParts, mut orders: mpsc::Receiver<Order>, hub: Hub) {
    let mut entries: HashMap<String, Entry> = HashMap::new();
    let mut dispatchers = JoinSet::new();
    let mut bell = parts.store.outbox().listen();
    loop {
        tokio::select! {
            () = parts.stop.cancelled() => break,
            Some(order) = orders.recv() => match order {
                Order::Join { binding, member, joined } => {
                    let entry = entries.entry(binding.source.clone()).or_insert_with(|| {
                        let (entry, dispatcher) = entry_for(&parts, binding, hub.clone());
                        dispatchers.spawn(dispatcher.run());
                        entry
                    });
                    entry.joins += 1;
                    // The dispatcher reads its reports until the hub lets go of it.
                    drop(entry.reports.send(Report::Joined(member)).await);
                    drop(joined.send(entry.reports.clone()));
                }
                Order::Idle { source, joins } => {
                    if entries.get(&source).is_some_and(|entry| entry.joins == joins) {
                        entries.remove(&source);
                    }
                }
            },
            ring = bell.next() => match ring {
                Ring::For(topic) => if let Some(entry) = entries.get(&topic.source) { entry.bell.notify_one() },
                Ring::ForAnybody => for entry in entries.values() { entry.bell.notify_one() },
                Ring::Over => break,
            },
            Some(ended) = dispatchers.join_next() => if let Err(error) = ended {
                tracing::error!(%error, "A dispatcher of a connector ended by a panic");
                entries.retain(|_, entry| !entry.reports.is_closed());
            },
        }
    }
    drop(entries);
    // Each gives back what it holds before it ends.
    while dispatchers.join_next().await.is_some() {}
}

fn entry_for(parts: &HubParts, binding: ConnectorBinding, hub: Hub) -> (Entry, Dispatcher) {
    let (reports, incoming) = mpsc::channel(REPORTS_MAX);
    let bell = Arc::new(Notify::new());
    let dispatcher = Dispatcher::new(parts.clone(), binding, hub, incoming, Arc::clone(&bell));
    (Entry { reports, bell, joins: 0 }, dispatcher)
}
