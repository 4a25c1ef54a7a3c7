//! Live events in process: many publishers, many listeners, nobody waits for anybody.

use cortex_types::{EventId, InboxStatus};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::broadcast;

/// How far a listener may fall behind before it skips ahead.
const BACKLOG: usize = 1_024;

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
    live: broadcast::Sender<LiveNews>,
    /// What was previewed of answers that still grow, for listeners who come late.
    growing: Arc<Mutex<HashMap<EventId, String>>>,
}

impl Default for Bus {
    fn default() -> Self {
        Self { live: broadcast::Sender::new(BACKLOG), growing: Arc::default() }
    }
}

impl Bus {
    pub fn publish(&self, event: LiveNews) {
        let mut growing = self.growing.lock().unwrap_or_else(PoisonError::into_inner);
        match &event {
            LiveNews::Delta { event, text } => growing.entry(event.clone()).or_default().push_str(text),
            LiveNews::Restarted { event } | LiveNews::Ended { event, .. } => {
                growing.remove(event);
            }
        }
        // Nobody listening is the normal case and no error.
        drop(self.live.send(event));
    }

    /// What was previewed of `event` so far, and a listener that hears all that follows.
    pub fn listen_to(&self, event: &EventId) -> (String, Listener) {
        let growing = self.growing.lock().unwrap_or_else(PoisonError::into_inner);
        (growing.get(event).cloned().unwrap_or_default(), Listener(self.live.subscribe()))
    }
}

/// One listener's place on the bus.
pub struct Listener(broadcast::Receiver<LiveNews>);

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
        match self.0.recv().await {
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
}
