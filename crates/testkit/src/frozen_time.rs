//! Time that stands still until a test moves it: the clock and every timer of the test's runtime together.

use cortex_types::{Clock, ManualClock, Millis};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

/// 15 January 2027, 08:00 UTC.
const START: Millis = Millis(1_800_000_000_000);

/// Holds the time of a one-threaded runtime, which is what `#[tokio::test]` makes.
///
/// Sockets and the store's threads go on as ever; only timers wait for `advance`.
pub struct FrozenTime {
    clock: Arc<ManualClock>,
    _hold: Sender<()>,
}

impl FrozenTime {
    pub fn freeze() -> Self {
        tokio::time::pause();
        // A paused runtime that has nothing to do jumps to its next timer, unless blocking work is under way.
        let (hold, released) = channel::<()>();
        drop(tokio::task::spawn_blocking(move || released.recv()));
        Self { clock: Arc::new(ManualClock::starting_at(START)), _hold: hold }
    }

    pub fn clock(&self) -> Arc<dyn Clock> {
        Arc::clone(&self.clock) as Arc<dyn Clock>
    }

    pub fn now(&self) -> Millis {
        self.clock.now()
    }

    pub async fn advance(&self, by: Duration) {
        self.clock.advance_ms(i64::try_from(by.as_millis()).unwrap_or(i64::MAX));
        tokio::time::advance(by).await;
    }
}
