//! Waiting for a moment of the clock. Timers of the machine stand still while it sleeps, so they are never trusted for long.

use cortex_types::{Clock, Millis};
use std::time::Duration;

/// Longest that a jump of the clock goes unnoticed.
const NOTICED_WITHIN: Duration = Duration::from_secs(1);

/// Returns once `due` has come; when the clock jumps past it, within about a second.
pub async fn wait_until(clock: &dyn Clock, due: Millis) {
    loop {
        let left = due.since(clock.now());
        if left.is_zero() {
            return;
        }
        tokio::time::sleep(left.min(NOTICED_WITHIN)).await;
    }
}

/// The same for a stretch of time from now.
pub async fn wait_for(clock: &dyn Clock, length: Duration) {
    wait_until(clock, clock.now().after(length)).await;
}
