//! How strong a fact still is: it fades by the day and holds longer the more often it was of use.

use cortex_types::{Fact, Millis};
use std::time::Duration;

/// A hot fact that nobody asked for in this long goes cold (D21).
pub const EVICT_UNACCESSED: Duration = Duration::from_secs(14 * 24 * 60 * 60);
/// Unless it had this many hits.
pub const EVICT_BELOW_HITS: u32 = 3;

const KEPT_PER_DAY: f64 = 0.95;
const DAY_MS: f64 = 24.0 * 60.0 * 60.0 * 1_000.0;

/// How often a fact was accessed; being told is the first time.
pub fn access_count(hit_count: u32) -> u32 {
    hit_count.saturating_add(1)
}

/// The strength of a fact at `now`, from 0 to 1.
pub fn strength(fact: &Fact, now: Millis) -> f64 {
    // A clock that was set back makes nothing stronger.
    let days = ((now.0 - fact.last_accessed_at.0) as f64 / DAY_MS).max(0.0);
    let use_factor = (f64::from(access_count(fact.hit_count)) + 1.0).log2();
    (fact.strength * KEPT_PER_DAY.powf(days) * use_factor).clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use cortex_types::{FactId, FactScope, FactTier};

    fn check(base: f64, hits: u32, days: f64, expected: f64) {
        let fact = Fact {
            seq: 1,
            id: FactId::from_ulid(Default::default()),
            text: String::new(),
            category: None,
            scope: FactScope::Global,
            tier: FactTier::Hot,
            pinned: false,
            strength: base,
            hit_count: hits,
            created_at: Millis(0),
            updated_at: Millis(0),
            last_accessed_at: Millis(0),
            archived_at: None,
            metadata_json: None,
            idempotency_keys: Vec::new(),
            unreviewed_in: None,
            origins: Vec::new(),
        };
        let seen = strength(&fact, Millis((days * DAY_MS) as i64));
        assert!((seen - expected).abs() < 1e-9, "{base} {hits} {days}: {seen}, not {expected}");
    }

    #[test]
    fn a_fact_fades_by_a_twentieth_a_day_and_use_holds_it() {
        check(1.0, 0, 0.0, 1.0);
        check(1.0, 0, 1.0, 0.95);
        check(1.0, 0, 14.0, 0.95_f64.powi(14));
        check(1.0, 2, 14.0, 0.95_f64.powi(14) * 2.0);
        check(1.0, 6, 1.0, 1.0);
        check(0.5, 0, 2.0, 0.5 * 0.95 * 0.95);
        check(0.0, 9, 0.0, 0.0);
        check(1.0, 0, -3.0, 1.0);
    }
}
