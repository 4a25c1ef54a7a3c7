//! Live events in process: many publishers, many listeners, nobody waits for anybody.

use cortex_types::{EventId, InboxStatus};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::broadcast;

/// How far a listener may fall behind before it skips ahead.
const BACKLOG: usize = 256;
const ENDS_BACKLOG: usize = 1_024;

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
    /// What was previewed, for listeners who come late.
    so_far: String,
    live: Option<broadcast::Sender<LiveNews>>,
}

impl Growing {
    /// Whether nothing was previewed and nobody but so many listens.
    fn is_idle(&self, listeners: usize) -> bool {
        let listening = self.live.as_ref().map_or(0, broadcast::Sender::receiver_count);
        self.so_far.is_empty() && listening <= listeners
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
        match &news {
            LiveNews::Delta { text, .. } => event.so_far.push_str(text),
            LiveNews::Restarted { .. } | LiveNews::Ended { .. } => event.so_far = String::new(),
        }
        if let Some(live) = &event.live {
            // Nobody listening any more is no error.
            drop(live.send(news));
        }
        if event.is_idle(0) {
            growing.remove(&id);
        }
    }

    /// What was previewed of `event` so far, and a listener that hears all that follows.
    pub fn listen_to(&self, event: &EventId) -> (String, Listener) {
        let mut growing = self.growing.lock().unwrap_or_else(PoisonError::into_inner);
        let found = growing.entry(event.clone()).or_default();
        let live = found.live.get_or_insert_with(|| broadcast::Sender::new(BACKLOG)).subscribe();
        (found.so_far.clone(), Listener { live, event: event.clone(), bus: self.clone() })
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
    live: broadcast::Receiver<LiveNews>,
    event: EventId,
    bus: Bus,
}

impl Drop for Listener {
    fn drop(&mut self) {
        let mut growing = self.bus.growing.lock().unwrap_or_else(PoisonError::into_inner);
        // This one is still counted.
        if growing.get(&self.event).is_some_and(|event| event.is_idle(1)) {
            growing.remove(&self.event);
        }
    }
}

/// What a listener hears next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Heard {
    Event(LiveNews),
    /// This listener was too slow and missed so many.
    Lagged(u64),
    Closed,
}

impl Listener {
    pub async fn next(&mut self) -> Heard {
        match self.live.recv().await {
            Ok(event) => Heard::Event(event),
            Err(broadcast::error::RecvError::Lagged(missed)) => Heard::Lagged(missed),
            Err(broadcast::error::RecvError::Closed) => Heard::Closed,
        }
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
