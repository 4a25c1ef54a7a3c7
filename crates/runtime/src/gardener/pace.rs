//! When the extractor runs beside its schedule: once enough was said, not too often, and after a failure not soon.

use cortex_types::Millis;
use std::time::Duration;

/// So long more messages may come together after a run: one question about several costs less than several.
const BETWEEN_RUNS: Duration = Duration::from_secs(1);
/// A model that failed or a cap that is reached is left alone for so long.
const AFTER_FAILURE: Duration = Duration::from_secs(5 * 60);

/// How a look at what was said ended.
pub(super) enum Look {
    /// So many more messages are needed.
    TooLittle(u64),
    Extracted,
    Failed,
}

/// Counts the answered messages of this process.
pub(super) struct Pace {
    /// The count at which it is worth looking.
    enough_at: u64,
    not_before: Option<Millis>,
}

impl Pace {
    /// The first message is worth a look: an earlier process may have left some.
    pub(super) fn new() -> Self {
        Self { enough_at: 1, not_before: None }
    }

    pub(super) fn is_due(&self, answered: u64, now: Millis) -> bool {
        answered >= self.enough_at && self.not_before.is_none_or(|at| at <= now)
    }

    /// When to look although nothing more is said.
    pub(super) fn wakes_at(&self, answered: u64) -> Option<Millis> {
        self.not_before.filter(|_| answered >= self.enough_at)
    }

    pub(super) fn looked(&mut self, look: &Look, answered: u64, now: Millis) {
        let (more, pause) = match look {
            Look::TooLittle(more) => ((*more).max(1), None),
            Look::Extracted => (1, Some(BETWEEN_RUNS)),
            Look::Failed => (1, Some(AFTER_FAILURE)),
        };
        self.enough_at = answered.saturating_add(more);
        self.not_before = pause.map(|pause| now.after(pause));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_looks_once_enough_was_said_and_not_soon_after_a_failure() {
        let now = Millis(1_800_000_000_000);
        let mut pace = Pace::new();
        assert!(!pace.is_due(0, now) && pace.is_due(1, now));
        pace.looked(&Look::TooLittle(3), 0, now);
        assert!(!pace.is_due(2, now) && pace.is_due(3, now));
        pace.looked(&Look::Extracted, 3, now);
        assert!(!pace.is_due(4, now) && pace.is_due(4, now.after(BETWEEN_RUNS)));
        assert_eq!((pace.wakes_at(3), pace.wakes_at(4)), (None, Some(now.after(BETWEEN_RUNS))));
        pace.looked(&Look::Failed, 4, now);
        assert!(!pace.is_due(90, now.after(BETWEEN_RUNS)) && pace.is_due(5, now.after(AFTER_FAILURE)));
        assert!(!pace.is_due(4, now.after(AFTER_FAILURE)), "nothing was said since");
    }
}
