//! Time that stands still until a test moves it: the clock and every timer of the test's runtime together.

use cortex_types::{Clock, JumpingClock, Millis};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

/// 15 January 2027, 08:00 UTC.
const START: Millis = Millis(1_800_000_000_000);

/// Holds the time of a runtime that was started with `#[tokio::test(start_paused = true)]`.
///
/// Sockets and the store's threads go on as ever; only timers wait for `advance`. A runtime that is paused later
/// stands between two milliseconds, where even a sleep of nothing never ends.
pub struct FrozenTime {
    clock: Arc<JumpingClock>,
    _hold: Sender<()>,
}

impl FrozenTime {
    /// Call it first: until then a runtime that waits moves its own time.
    pub fn hold() -> Self {
        // A paused runtime that has nothing to do jumps to its next timer, unless blocking work is under way.
        let (hold, released) = channel::<()>();
        drop(tokio::task::spawn_blocking(move || released.recv()));
        Self { clock: Arc::new(JumpingClock::starting_at(START)), _hold: hold }
    }

    pub fn clock(&self) -> Arc<dyn Clock> {
        Arc::clone(&self.clock) as Arc<dyn Clock>
    }

    pub fn now(&self) -> Millis {
        self.clock.now()
    }

    /// Whole milliseconds only.
    pub async fn advance(&self, by: Duration) {
        assert!(
            by.subsec_nanos().is_multiple_of(1_000_000),
            "{by:?} would leave time between two milliseconds"
        );
        self.clock.pass_ms(i64::try_from(by.as_millis()).unwrap_or(i64::MAX));
        tokio::time::advance(by).await;
    }

    /// The wall clock alone moves: the machine sleeps while its timers stand still, or its clock is set.
    pub fn jump_ms(&self, step: i64) {
        self.clock.jump_ms(step);
    }

    pub fn wall(&self) -> Millis {
        self.clock.wall()
    }
}
