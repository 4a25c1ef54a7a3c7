//! How long to wait before another try: doubling from five seconds, at most a quarter of an hour, with jitter.

use std::time::Duration;

const FIRST: Duration = Duration::from_secs(5);
const LONGEST: Duration = Duration::from_secs(15 * 60);
/// Tries that fail together must not come back together.
const JITTER: f64 = 0.2;

/// `min(2^(attempts-1) · 5 s, 15 min) ± 20 %`; `luck` in 0..=1 picks the point of the jitter, from shortest to longest.
pub fn backoff(attempts: u32, luck: f64) -> Duration {
    let doublings = attempts.saturating_sub(1).min(16);
    let plain = FIRST.saturating_mul(1 << doublings).min(LONGEST);
    let factor = 1.0 - JITTER + 2.0 * JITTER * luck.clamp(0.0, 1.0);
    plain.mul_f64(factor)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn it_doubles_from_five_seconds_to_a_quarter_of_an_hour() {
        let middle: Vec<u64> = (1..=10).map(|attempts| backoff(attempts, 0.5).as_secs()).collect();
        assert_eq!(middle, [5, 10, 20, 40, 80, 160, 320, 640, 900, 900]);
    }

    proptest! {
        #[test]
        fn jitter_stays_within_a_fifth(attempts in 0u32..10_000, luck in 0.0f64..=1.0) {
            let middle = backoff(attempts, 0.5).as_secs_f64();
            let delay = backoff(attempts, luck).as_secs_f64();
            prop_assert!(delay >= middle * 0.799 && delay <= middle * 1.201, "{delay} around {middle}");
        }
    }
}
