//! Live events in process: many publishers, many listeners, nobody waits for anybody.

use cortex_types::{EventId, InboxStatus};
use tokio::sync::broadcast;

/// How far a listener may fall behind before it skips ahead.
const BACKLOG: usize = 1_024;

/// Something that happens to an event while people may be watching it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LiveEvent {
    /// More of the answer; a preview.
    Delta { event: EventId, text: String },
    /// What was previewed is void; the model starts over.
    Restarted { event: EventId },
    /// The turn ended; the outbox has what is to be delivered.
    Ended { event: EventId, status: InboxStatus },
}

impl LiveEvent {
    pub fn event(&self) -> &EventId {
        match self {
            Self::Delta { event, .. } | Self::Restarted { event } | Self::Ended { event, .. } => event,
        }
    }
}

/// The bus of one process. Clones share it.
#[derive(Clone)]
pub struct Bus(broadcast::Sender<LiveEvent>);

impl Default for Bus {
    fn default() -> Self {
        Self(broadcast::Sender::new(BACKLOG))
    }
}

impl Bus {
    pub fn publish(&self, event: LiveEvent) {
        // Nobody listening is the normal case and no error.
        drop(self.0.send(event));
    }

    pub fn has_listeners(&self) -> bool {
        self.0.receiver_count() > 0
    }

    pub fn listen(&self) -> Listener {
        Listener(self.0.subscribe())
    }
}

/// One listener's place on the bus.
pub struct Listener(broadcast::Receiver<LiveEvent>);

/// What a listener hears next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Heard {
    Event(LiveEvent),
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
        let mut slow = bus.listen();
        let event: EventId = "evt_01J00000000000000000000000".parse().unwrap();
        for _ in 0..BACKLOG + 5 {
            bus.publish(LiveEvent::Restarted { event: event.clone() });
        }
        assert_eq!(slow.next().await, Heard::Lagged(5));
        assert_eq!(slow.next().await, Heard::Event(LiveEvent::Restarted { event }));
    }
}
