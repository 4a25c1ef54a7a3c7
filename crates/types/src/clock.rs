//! The one source of time: epoch milliseconds from a `Clock` that tests can turn.

use serde::{Deserialize, Serialize};
use std::sync::Arc;
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
    /// For order, leases and expiry: follows the wall clock forward, also over a sleep of the machine, and never goes
    /// back (D90).
    fn now(&self) -> Millis;

    /// The wall clock itself, which can be set back: for signatures, for schedules and for what people read.
    fn wall(&self) -> Millis {
        self.now()
    }
}

/// Time that never goes back, from a wall clock that can jump and a steady one that cannot.
///
/// A wall clock ahead of all that was seen is followed at once: the machine slept, or its clock was set ahead. One that
/// falls behind was set back: time goes on steadily from where it was, so that no lease is given twice and none lasts
/// longer than it was given for.
#[derive(Debug)]
struct ForwardTime {
    /// The furthest that the wall clock was ever ahead of the steady one.
    ahead: AtomicI64,
}

impl ForwardTime {
    fn starting(wall: Millis, steady: Millis) -> Self {
        Self { ahead: AtomicI64::new(wall.0.saturating_sub(steady.0)) }
    }

    fn read(&self, wall: Millis, steady: Millis) -> Millis {
        let ahead = wall.0.saturating_sub(steady.0);
        let furthest = self.ahead.fetch_max(ahead, Ordering::SeqCst).max(ahead);
        Millis(steady.0.saturating_add(furthest))
    }
}

/// The machine's clock.
#[derive(Debug, Clone)]
pub struct SystemClock {
    time: Arc<ForwardTime>,
    started: Instant,
}

impl SystemClock {
    pub fn start() -> Self {
        Self { time: Arc::new(ForwardTime::starting(wall_clock(), Millis(0))), started: Instant::now() }
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Millis {
        self.time.read(wall_clock(), Millis(0).after(self.started.elapsed()))
    }

    fn wall(&self) -> Millis {
        wall_clock()
    }
}

fn wall_clock() -> Millis {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Millis(i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX))
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

/// A machine whose wall clock jumps when told, read by the rule of the real one; for tests and simulations.
#[derive(Debug)]
pub struct JumpingClock {
    wall: ManualClock,
    steady: ManualClock,
    time: ForwardTime,
}

impl JumpingClock {
    pub fn starting_at(wall: Millis) -> Self {
        let steady = ManualClock::starting_at(Millis(0));
        let time = ForwardTime::starting(wall, steady.now());
        Self { wall: ManualClock::starting_at(wall), steady, time }
    }

    /// Time passes.
    pub fn pass_ms(&self, step: i64) {
        self.steady.advance_ms(step);
        self.wall.advance_ms(step);
    }

    /// The wall clock alone moves: the machine slept, or somebody set its clock.
    pub fn jump_ms(&self, step: i64) {
        self.wall.advance_ms(step);
    }
}

impl Clock for JumpingClock {
    fn now(&self) -> Millis {
        self.time.read(self.wall.now(), self.steady.now())
    }

    fn wall(&self) -> Millis {
        self.wall.now()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = 3_600_000;
    const START: Millis = Millis(1_800_000_000_000);

    #[test]
    fn time_follows_the_wall_clock_forward_and_never_goes_back() {
        let clock = JumpingClock::starting_at(START);
        clock.pass_ms(1_000);
        assert_eq!((clock.now(), clock.wall()), (Millis(START.0 + 1_000), Millis(START.0 + 1_000)));
        clock.jump_ms(8 * HOUR);
        assert_eq!(clock.now(), Millis(START.0 + 8 * HOUR + 1_000), "the machine slept");
        clock.jump_ms(-HOUR);
        assert_eq!(clock.now(), Millis(START.0 + 8 * HOUR + 1_000), "it does not go back");
        assert_eq!(clock.wall(), Millis(START.0 + 7 * HOUR + 1_000));
        clock.pass_ms(10_000);
        assert_eq!(clock.now(), Millis(START.0 + 8 * HOUR + 11_000), "and it does not stand still");
    }

    #[test]
    fn a_day_by_mistake_and_back_stretches_nothing() {
        let clock = JumpingClock::starting_at(START);
        clock.jump_ms(24 * HOUR);
        let leased_until = clock.now().after(Duration::from_secs(60));
        clock.jump_ms(-24 * HOUR);
        clock.pass_ms(59_999);
        assert!(clock.now() < leased_until);
        clock.pass_ms(1);
        assert_eq!(clock.now(), leased_until);
        clock.jump_ms(25 * HOUR);
        assert_eq!(clock.now(), clock.wall(), "the wall clock came past it");
    }

    #[test]
    fn the_clock_of_the_machine_goes_on() {
        let clock = SystemClock::start();
        let (first, wall) = (clock.now(), clock.wall());
        assert!(clock.now() >= first && first.since(wall).as_secs() < 60 && wall.since(first).as_secs() < 60);
    }
}
