//! Rates: how many requests a minute, and what a client is told about it.

use http::{HeaderMap, HeaderName, HeaderValue};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
const REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
const RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");
/// A whole minute's requests may come at once.
const WINDOW: Duration = Duration::from_secs(60);

/// A bucket that holds a minute's requests and fills evenly. One number is all of its state, so that a request costs
/// one atomic exchange and a burst of many at once gets exactly what is there.
pub(crate) struct Rate {
    /// 0 is no limit.
    per_minute: u32,
    begun: Instant,
    /// When the bucket is full again, in nanoseconds since it began.
    full_at: AtomicU64,
}

/// What a request left in the bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Spent {
    limit: u32,
    remaining: u32,
    full_in: Duration,
    /// How long until there is one more; none when there was one.
    pub(crate) wait: Option<Duration>,
}

impl Rate {
    pub(crate) fn per_minute(per_minute: u32) -> Self {
        Self { per_minute, begun: Instant::now(), full_at: AtomicU64::new(0) }
    }

    /// Takes one request out; none when there is no limit, an error when none is left.
    pub(crate) fn spend(&self) -> Result<Option<Spent>, Spent> {
        if self.per_minute == 0 {
            return Ok(None);
        }
        let spent = self.spend_at(self.begun.elapsed());
        if spent.wait.is_some() { Err(spent) } else { Ok(Some(spent)) }
    }

    fn spend_at(&self, now: Duration) -> Spent {
        let (now, window) = (nanos(now), nanos(WINDOW));
        let each = window.div_ceil(u64::from(self.per_minute));
        let size = each * u64::from(self.per_minute);
        let spent = |full_at: u64, wait: u64| Spent {
            limit: self.per_minute,
            remaining: u32::try_from(size.saturating_sub(full_at.saturating_sub(now)) / each)
                .unwrap_or(u32::MAX),
            full_in: Duration::from_nanos(full_at.saturating_sub(now)),
            wait: (wait > 0).then(|| Duration::from_nanos(wait)),
        };
        let mut before = self.full_at.load(Ordering::Relaxed);
        loop {
            let after = before.max(now) + each;
            let missing = after.saturating_sub(now + size);
            if missing > 0 {
                return spent(before, missing);
            }
            let exchanged =
                self.full_at.compare_exchange_weak(before, after, Ordering::Relaxed, Ordering::Relaxed);
            match exchanged {
                Ok(_) => return spent(after, 0),
                Err(other) => before = other,
            }
        }
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX / 2)
}

impl Spent {
    /// `X-RateLimit-*`; the reset is in seconds from now.
    pub(crate) fn tell(&self, headers: &mut HeaderMap) {
        headers.insert(LIMIT, HeaderValue::from(self.limit));
        headers.insert(REMAINING, HeaderValue::from(self.remaining));
        headers.insert(RESET, HeaderValue::from(self.full_in.as_millis().div_ceil(1_000) as u64));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;

    #[test]
    fn a_bucket_empties_tells_how_long_to_wait_and_fills_evenly() {
        let rate = Rate::per_minute(60);
        let at = |seconds: u64| rate.spend_at(Duration::from_secs(seconds));
        for spent in 1..=60 {
            let left = at(100);
            assert_eq!(
                (left.remaining, left.full_in.as_secs(), left.wait),
                (60 - spent, u64::from(spent), None)
            );
        }
        assert_eq!(at(100).wait, Some(Duration::from_secs(1)));
        assert_eq!((at(101).wait, at(101).wait), (None, Some(Duration::from_secs(1))));
        assert_eq!(at(1_000).remaining, 59);
    }

    #[test]
    fn no_burst_gets_more_than_the_limit_however_many_come_at_once() {
        for limit in [1, 2, 7, 59, 60, 61, 997, 1_000_000] {
            let rate = Rate::per_minute(limit);
            let got = AtomicUsize::new(0);
            std::thread::scope(|scope| {
                for thread in 0..8 {
                    let (rate, got) = (&rate, &got);
                    // Clocks of different threads are read in any order.
                    let now = Duration::from_secs(5) + Duration::from_nanos(thread);
                    scope.spawn(move || {
                        for _ in 0..1_000 {
                            if rate.spend_at(now).wait.is_none() {
                                got.fetch_add(1, Ordering::Relaxed);
                            }
                        }
                    });
                }
            });
            let (got, most) = (got.into_inner(), usize::try_from(limit).unwrap().min(8_000));
            assert!((most..=most + 1).contains(&got), "{got} of {most}");
        }
    }

    #[test]
    fn without_a_limit_everything_passes_and_nothing_is_told() {
        assert_eq!(Rate::per_minute(0).spend(), Ok(None));
    }
}
