//! The one source of time: epoch milliseconds from a `Clock` that tests can turn.

use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A moment in epoch milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Millis(pub i64);

impl Millis {
    pub fn after(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)))
    }

    pub fn before(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)))
    }

    /// Time from `earlier` to `self`; zero when the clock went back.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }

    /// RFC 3339 in UTC, as people and APIs read it.
    pub fn to_rfc3339(self) -> String {
        match jiff::Timestamp::from_millisecond(self.0) {
            Ok(timestamp) => format!("{timestamp:.3}"),
            Err(_) => self.0.to_string(),
        }
    }
}

/// Where time comes from. The server has one; tests pass their own.
pub trait Clock: Send + Sync {
    fn now(&self) -> Millis;
}

/// The machine's clock: wall time at its start, then steady.
///
/// A wall clock that is set back or ahead while leases are out would hand one message to two connectors
/// or hide it for hours, so after the start only elapsed time counts.
#[derive(Debug, Clone, Copy)]
pub struct SystemClock {
    wall_at_start: Millis,
    started: Instant,
}

impl SystemClock {
    pub fn start() -> Self {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self {
            wall_at_start: Millis(i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX)),
            started: Instant::now(),
        }
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Millis {
        self.wall_at_start.after(self.started.elapsed())
    }
}

/// A clock that moves only when told; for tests and simulations.
#[derive(Debug, Default)]
pub struct ManualClock(AtomicI64);

impl ManualClock {
    pub fn starting_at(now: Millis) -> Self {
        Self(AtomicI64::new(now.0))
    }

    /// Moves the clock; a negative step turns it back.
    pub fn advance_ms(&self, step: i64) {
        self.0.fetch_add(step, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Millis {
        Millis(self.0.load(Ordering::SeqCst))
    }
}
