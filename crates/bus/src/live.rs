//! Live events in process: many publishers, many listeners, nobody waits for anybody.

use cortex_types::{EventId, InboxStatus};
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::{Notify, broadcast};

/// How far a listener may fall behind, in news and in bytes of text, before it hears the answer in longer pieces.
const BACKLOG: usize = 256;
const BACKLOG_BYTES: usize = 32 * 1024;
const ENDS_BACKLOG: usize = 1_024;
/// Longest piece of text that a listener hears who fell behind: while he does not read, it is held for him.
const PIECE_BYTES: usize = 8 * 1024;

/// Something that happens to an event while people may be watching it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LiveNews {
    /// More of the answer; a preview.
    Delta { event: EventId, text: String },
    /// What was previewed is void; the model starts over.
    Restarted { event: EventId },
    /// The turn ended; the outbox has what is to be delivered.
    Ended { event: EventId, status: InboxStatus },
}

impl LiveNews {
    pub fn event(&self) -> &EventId {
        match self {
            Self::Delta { event, .. } | Self::Restarted { event } | Self::Ended { event, .. } => event,
        }
    }
}

/// The bus of one process. Clones share it.
#[derive(Clone)]
pub struct Bus {
    /// Events whose answer grows or that somebody listens to; each has a channel of its own, so that what is said in one
    /// turn costs nothing to those who listen to others.
    growing: Arc<Mutex<HashMap<EventId, Growing>>>,
    /// The ends of all turns, for those who wait for many at once.
    ends: broadcast::Sender<EventId>,
}

impl Default for Bus {
    fn default() -> Self {
        Self { growing: Arc::default(), ends: broadcast::Sender::new(ENDS_BACKLOG) }
    }
}

#[derive(Default)]
struct Growing {
    /// What was previewed, for listeners who come late or fall behind.
    so_far: String,
    /// How often the answer began anew.
    beginnings: u64,
    /// The newest news, while somebody listens.
    recent: VecDeque<Recent>,
    recent_bytes: usize,
    /// Number of the next news.
    next: u64,
    listeners: usize,
    bell: Arc<Notify>,
}

/// One piece of news, and where in the answer it stands.
struct Recent {
    news: LiveNews,
    beginnings: u64,
    start: usize,
}

impl Recent {
    fn bytes(&self) -> usize {
        match &self.news {
            LiveNews::Delta { text, .. } => text.len(),
            LiveNews::Restarted { .. } | LiveNews::Ended { .. } => 0,
        }
    }
}

impl Growing {
    fn is_idle(&self) -> bool {
        self.so_far.is_empty() && self.listeners == 0
    }

    fn add(&mut self, news: LiveNews) {
        let (beginnings, start) = (self.beginnings, self.so_far.len());
        match &news {
            LiveNews::Delta { text, .. } => self.so_far.push_str(text),
            LiveNews::Restarted { .. } | LiveNews::Ended { .. } => {
                self.so_far = String::new();
                self.beginnings += 1;
            }
        }
        if self.listeners == 0 {
            return;
        }
        let recent = Recent { news, beginnings, start };
        self.recent_bytes += recent.bytes();
        self.recent.push_back(recent);
        self.next += 1;
        while self.recent.len() > BACKLOG || (self.recent.len() > 1 && self.recent_bytes > BACKLOG_BYTES) {
            self.recent_bytes -= self.recent.pop_front().map_or(0, |oldest| oldest.bytes());
        }
        self.bell.notify_waiters();
    }

    /// Number of the oldest news that is still there.
    fn first(&self) -> u64 {
        self.next - self.recent.len() as u64
    }

    /// Where the recent news begin in an answer that began so often.
    fn recent_start(&self, beginnings: u64) -> Option<usize> {
        match self.recent.front() {
            Some(recent) => (recent.beginnings == beginnings).then_some(recent.start),
            None => (self.beginnings == beginnings).then_some(self.so_far.len()),
        }
    }

    /// A piece of the answer that a listener missed.
    fn missed(&self, from: usize, to: usize) -> Option<&str> {
        let mut end = to.min(from + PIECE_BYTES);
        while !self.so_far.is_char_boundary(end) {
            end -= 1;
        }
        self.so_far.get(from..end).filter(|missed| !missed.is_empty())
    }
}

impl Bus {
    pub fn publish(&self, news: LiveNews) {
        if let LiveNews::Ended { event, .. } = &news {
            // Nobody listening is no error.
            drop(self.ends.send(event.clone()));
        }
        let mut growing = self.growing.lock().unwrap_or_else(PoisonError::into_inner);
        let id = news.event().clone();
        let event = growing.entry(id.clone()).or_default();
        event.add(news);
        if event.is_idle() {
            growing.remove(&id);
        }
    }

    /// What was previewed of `event` so far, and a listener that hears all that follows.
    pub fn listen_to(&self, event: &EventId) -> (String, Listener) {
        let mut growing = self.growing.lock().unwrap_or_else(PoisonError::into_inner);
        let found = growing.entry(event.clone()).or_default();
        found.listeners += 1;
        let listener = Listener {
            bus: self.clone(),
            event: event.clone(),
            bell: Arc::clone(&found.bell),
            next: found.next,
            beginnings: found.beginnings,
            heard: found.so_far.len(),
        };
        (found.so_far.clone(), listener)
    }
}

impl Bus {
    /// Hears of every turn that comes to an end, of whatever kind, from now on.
    pub fn listen_to_ends(&self) -> EndListener {
        EndListener(self.ends.subscribe())
    }
}

/// The place of one who waits for the ends of many turns.
pub struct EndListener(broadcast::Receiver<EventId>);

/// What somebody who waits for ends hears.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EndHeard {
    Of(EventId),
    /// Some were missed.
    Lagged,
    Closed,
}

impl EndListener {
    pub async fn next(&mut self) -> EndHeard {
        match self.0.recv().await {
            Ok(event) => EndHeard::Of(event),
            Err(broadcast::error::RecvError::Lagged(_)) => EndHeard::Lagged,
            Err(broadcast::error::RecvError::Closed) => EndHeard::Closed,
        }
    }
}

/// One listener's place on the bus.
pub struct Listener {
    bus: Bus,
    event: EventId,
    bell: Arc<Notify>,
    /// Number of the news that it hears next.
    next: u64,
    /// The answer that it hears, and how much of it.
    beginnings: u64,
    heard: usize,
}

impl Drop for Listener {
    fn drop(&mut self) {
        let mut growing = self.bus.growing.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(event) = growing.get_mut(&self.event) else { return };
        event.listeners -= 1;
        if event.listeners == 0 {
            (event.recent, event.recent_bytes) = (VecDeque::new(), 0);
        }
        if event.is_idle() {
            growing.remove(&self.event);
        }
    }
}

/// What a listener hears next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Heard {
    Event(LiveNews),
    /// This listener was too slow and missed so many, among them a new beginning or an end.
    Lagged(u64),
}

impl Listener {
    pub async fn next(&mut self) -> Heard {
        let bell = Arc::clone(&self.bell);
        loop {
            let rung = bell.notified();
            tokio::pin!(rung);
            // Before looking: what comes in between then rings.
            rung.as_mut().enable();
            if let Some(heard) = self.hear() {
                return heard;
            }
            rung.await;
        }
    }

    fn hear(&mut self) -> Option<Heard> {
        let growing = self.bus.growing.lock().unwrap_or_else(PoisonError::into_inner);
        let event = growing.get(&self.event)?;
        let first = event.first();
        if self.next < first {
            // What it missed is in the answer so far, unless that began anew.
            let start = event.recent_start(self.beginnings).filter(|_| event.beginnings == self.beginnings);
            let Some(start) = start else {
                let missed = first - self.next;
                self.next = first;
                (self.beginnings, self.heard) =
                    event.recent.front().map_or((event.beginnings, 0), |next| (next.beginnings, next.start));
                return Some(Heard::Lagged(missed));
            };
            if let Some(text) = event.missed(self.heard, start) {
                self.heard += text.len();
                let text = text.to_owned();
                return Some(Heard::Event(LiveNews::Delta { event: self.event.clone(), text }));
            }
            self.next = first;
        }
        let recent = event.recent.get(usize::try_from(self.next - first).unwrap_or(usize::MAX))?;
        self.next += 1;
        match &recent.news {
            LiveNews::Delta { text, .. } => {
                (self.beginnings, self.heard) = (recent.beginnings, recent.start + text.len())
            }
            LiveNews::Restarted { .. } | LiveNews::Ended { .. } => {
                (self.beginnings, self.heard) = (recent.beginnings + 1, 0)
            }
        }
        Some(Heard::Event(recent.news.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_slow_listener_is_told_what_it_missed_and_blocks_nobody() {
        let bus = Bus::default();
        let event: EventId = "evt_01J00000000000000000000000".parse().unwrap();
        let (_, mut slow) = bus.listen_to(&event);
        for _ in 0..BACKLOG + 5 {
            bus.publish(LiveNews::Restarted { event: event.clone() });
        }
        assert_eq!(slow.next().await, Heard::Lagged(5));
        assert_eq!(slow.next().await, Heard::Event(LiveNews::Restarted { event }));
    }

    /// How much text a listener is given, how long its pieces are at most, and how much is kept for it meanwhile.
    #[tokio::test]
    async fn a_listener_that_falls_behind_hears_every_word_in_short_pieces_and_little_is_kept_for_it() {
        let bus = Bus::default();
        let event: EventId = "evt_01J00000000000000000000000".parse().unwrap();
        let (_, mut slow) = bus.listen_to(&event);
        let words = "grün ".repeat(1_000);
        for _ in 0..50 {
            bus.publish(LiveNews::Delta { event: event.clone(), text: words.clone() });
        }
        let kept: usize = bus.growing.lock().unwrap()[&event].recent.iter().map(Recent::bytes).sum();
        assert!(kept <= BACKLOG_BYTES, "{kept}");
        let mut heard = String::new();
        while heard.len() < 50 * words.len() {
            let Heard::Event(LiveNews::Delta { text, .. }) = slow.next().await else { unreachable!() };
            assert!(text.len() <= PIECE_BYTES);
            heard += &text;
        }
        assert_eq!(heard, words.repeat(50));
        bus.publish(LiveNews::Delta { event: event.clone(), text: words.repeat(50) });
        bus.publish(LiveNews::Delta { event: event.clone(), text: "lost".to_owned() });
        bus.publish(LiveNews::Ended { event: event.clone(), status: InboxStatus::Done });
        (0..BACKLOG).for_each(|_| bus.publish(LiveNews::Restarted { event: event.clone() }));
        assert_eq!(slow.next().await, Heard::Lagged(3));
        assert_eq!(slow.next().await, Heard::Event(LiveNews::Restarted { event }));
    }

    #[tokio::test]
    async fn a_late_listener_gets_the_beginning_and_hears_the_rest() {
        let bus = Bus::default();
        let event: EventId = "evt_01J00000000000000000000000".parse().unwrap();
        let delta = |text: &str| LiveNews::Delta { event: event.clone(), text: text.to_owned() };
        bus.publish(delta("Hel"));
        bus.publish(delta("lo"));
        let (so_far, mut late) = bus.listen_to(&event);
        bus.publish(delta(" you"));
        assert_eq!((so_far.as_str(), late.next().await), ("Hello", Heard::Event(delta(" you"))));
        bus.publish(LiveNews::Ended { event: event.clone(), status: InboxStatus::Done });
        assert_eq!(bus.listen_to(&event).0, "");
    }

    #[tokio::test]
    async fn the_ends_of_all_turns_are_heard_by_who_waits_for_many() {
        let bus = Bus::default();
        let event: EventId = "evt_01J00000000000000000000000".parse().unwrap();
        let mut ends = bus.listen_to_ends();
        bus.publish(LiveNews::Restarted { event: event.clone() });
        for _ in 0..=ENDS_BACKLOG {
            bus.publish(LiveNews::Ended { event: event.clone(), status: InboxStatus::Done });
        }
        assert_eq!(ends.next().await, EndHeard::Lagged);
        assert_eq!(ends.next().await, EndHeard::Of(event));
    }

    #[tokio::test]
    async fn nobody_hears_of_other_events_and_nothing_is_kept_of_those_that_ended() {
        let bus = Bus::default();
        let [one, other]: [EventId; 2] = ["evt_01J00000000000000000000000", "evt_01J00000000000000000000001"]
            .map(|id| id.parse().unwrap());
        let (_, mut listener) = bus.listen_to(&one);
        bus.publish(LiveNews::Delta { event: other.clone(), text: "elsewhere".to_owned() });
        bus.publish(LiveNews::Ended { event: other, status: InboxStatus::Done });
        let ended = LiveNews::Ended { event: one.clone(), status: InboxStatus::Pending };
        bus.publish(ended.clone());
        assert_eq!(listener.next().await, Heard::Event(ended), "and it goes on listening");
        bus.publish(LiveNews::Restarted { event: one.clone() });
        assert_eq!(listener.next().await, Heard::Event(LiveNews::Restarted { event: one }));
        drop(listener);
        assert!(bus.growing.lock().unwrap().is_empty());
    }
}
