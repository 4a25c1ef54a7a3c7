//! Two connectors at work: ingesters that repeat what they do not know, pollers that ack, nack and lose answers.

use super::client::Client;
use super::expected::{refused_text, text_with_tools};
use super::history::{Ingested, Known, Record, SentEvent, Settled, Shown};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU16, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

const INGESTERS_PER_SOURCE: usize = 2;
const TOPICS_PER_SOURCE: usize = 12;
/// Accepted and not yet shown, per source; keeps the drain at the end short.
const OPEN_MAX: i64 = 150;
const PAUSE: Duration = Duration::from_millis(3);

/// A connector of the load. Order asked for by one of them shows that it is kept.
struct Source {
    name: &'static str,
    ordered: bool,
}

const SOURCES: [Source; 2] =
    [Source { name: "alpha", ordered: true }, Source { name: "beta", ordered: false }];

/// How the load is shaped.
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    /// Tells its events from those of other loads in the same home.
    pub(crate) name: &'static str,
    /// Events of each ingester; without end when `None`.
    pub(crate) events: Option<usize>,
    /// Rest between two events of an ingester.
    pub(crate) rest: Duration,
    /// Bytes that a text has beside its name.
    pub(crate) padding: usize,
}

/// What the load shares with the one who starts and kills servers.
pub(crate) struct Door {
    /// 0 while no server is up.
    port: AtomicU16,
    epoch: Instant,
    /// Nothing new is sent any more; what is unknown is still found out.
    closing: AtomicBool,
    /// Everybody goes home.
    closed: AtomicBool,
    ingesters: AtomicUsize,
    /// Events accepted less replies shown, by source.
    open: [AtomicI64; 2],
}

impl Door {
    pub(crate) fn new(epoch: Instant) -> Self {
        Self {
            port: AtomicU16::new(0),
            epoch,
            closing: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            ingesters: AtomicUsize::new(0),
            open: [AtomicI64::new(0), AtomicI64::new(0)],
        }
    }

    pub(crate) fn open_at(&self, port: u16) {
        self.port.store(port, Ordering::SeqCst);
    }

    pub(crate) fn no_server(&self) {
        self.port.store(0, Ordering::SeqCst);
    }

    pub(crate) fn stop_sending(&self) {
        self.closing.store(true, Ordering::SeqCst);
    }

    /// Whether every ingester has sent what it had to and knows the outcome.
    pub(crate) fn has_sent_all(&self) -> bool {
        self.ingesters.load(Ordering::SeqCst) == 0
    }

    /// Whether every accepted event has been answered and its reply shown.
    pub(crate) fn has_shown_all(&self) -> bool {
        self.open.iter().all(|open| open.load(Ordering::SeqCst) <= 0)
    }

    fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
    }

    fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }

    fn is_closing(&self) -> bool {
        self.is_closed() || self.closing.load(Ordering::SeqCst)
    }

    /// The port of the server that is up, once one is; `None` when everybody goes home.
    fn wait(&self) -> Option<u16> {
        loop {
            if self.is_closed() {
                return None;
            }
            match self.port.load(Ordering::SeqCst) {
                0 => std::thread::sleep(PAUSE),
                port => return Some(port),
            }
        }
    }
}

/// Runs the load beside `conduct`; returns what that returns, and everything the clients know.
pub(crate) fn run<T>(door: &Door, shape: Shape, conduct: impl FnOnce() -> T) -> (T, Vec<Record>) {
    door.ingesters.store(SOURCES.len() * INGESTERS_PER_SOURCE, Ordering::SeqCst);
    std::thread::scope(|scope| {
        let mut threads = Vec::new();
        for (index, source) in SOURCES.iter().enumerate() {
            for number in 0..INGESTERS_PER_SOURCE {
                threads.push(scope.spawn(move || ingest(door, shape, index, source, number)));
            }
            threads.push(scope.spawn(move || Poller::new(door, index, source).run()));
        }
        let value = conduct();
        door.close();
        let records = threads.into_iter().flat_map(|thread| thread.join().unwrap_or_default());
        (value, records.collect())
    })
}

fn ingest(door: &Door, shape: Shape, index: usize, source: &Source, ingester: usize) -> Vec<Record> {
    let mut client = Client::new(source.name, source.ordered, door.epoch);
    for number in 0..shape.events.unwrap_or(usize::MAX) {
        while door.open[index].load(Ordering::SeqCst) > OPEN_MAX && !door.is_closing() {
            std::thread::sleep(PAUSE);
        }
        if door.is_closing() {
            break;
        }
        let event = event(shape, source.name, ingester, number);
        if !until_known(door, &mut client, &event) {
            break;
        }
        door.open[index].fetch_add(1, Ordering::SeqCst);
        // A connector that lost its place sends again what was accepted long ago.
        if number.is_multiple_of(5) && !until_known(door, &mut client, &event) {
            break;
        }
        std::thread::sleep(shape.rest);
    }
    door.ingesters.fetch_sub(1, Ordering::SeqCst);
    client.history
}

fn event(shape: Shape, source: &str, ingester: usize, number: usize) -> SentEvent {
    let external_id = format!("{}-{source}-{ingester}-{number}", shape.name);
    let mut text = match number {
        number if number % 7 == 3 => text_with_tools(&external_id),
        number if number % 23 == 11 => refused_text(&external_id),
        _ => external_id.clone(),
    };
    if shape.padding > 0 {
        text = format!("{text} {}", "padding ".repeat(shape.padding / 8));
    }
    let topic = format!("topic-{}", number % TOPICS_PER_SOURCE);
    SentEvent { source: source.to_owned(), external_id, topic, text: text.trim_end().to_owned() }
}

/// Sends the same event until an answer says that it is kept; `false` when everybody goes home first.
pub(crate) fn until_known(door: &Door, client: &mut Client, event: &SentEvent) -> bool {
    while let Some(port) = door.wait() {
        match client.ingest(port, event) {
            Known::Answered(Ingested::Queued { .. } | Ingested::Duplicate { .. }) => return true,
            Known::Answered(Ingested::Refused { .. }) | Known::Unknown => std::thread::sleep(PAUSE),
        }
    }
    false
}

struct Poller<'a> {
    door: &'a Door,
    index: usize,
    client: Client,
    shown: BTreeSet<String>,
    nacked: BTreeSet<String>,
}

impl<'a> Poller<'a> {
    fn new(door: &'a Door, index: usize, source: &Source) -> Self {
        let client = Client::new(source.name, source.ordered, door.epoch);
        Self { door, index, client, shown: BTreeSet::new(), nacked: BTreeSet::new() }
    }

    fn run(mut self) -> Vec<Record> {
        while let Some(port) = self.door.wait() {
            match self.client.poll(port, 20) {
                Known::Answered(messages) if !messages.is_empty() => {
                    for message in messages {
                        self.deliver(&message);
                    }
                }
                Known::Answered(_) | Known::Unknown => std::thread::sleep(PAUSE),
            }
        }
        self.client.history
    }

    /// Acks nearly all; one in forty fails at its first delivery.
    fn deliver(&mut self, message: &Shown) {
        if self.shown.insert(message.message.clone()) {
            self.door.open[self.index].fetch_sub(1, Ordering::SeqCst);
        }
        let fails = self.shown.len().is_multiple_of(40) && self.nacked.insert(message.message.clone());
        while let Some(port) = self.door.wait() {
            let known = if fails { self.client.nack(port, message) } else { self.client.ack(port, message) };
            match known {
                Known::Answered(Settled::Refused { .. }) | Known::Unknown => std::thread::sleep(PAUSE),
                Known::Answered(Settled::Done | Settled::Conflict) => return,
            }
        }
    }
}
