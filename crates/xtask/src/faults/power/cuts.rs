//! Where the power goes: right after something was said, right before a sync ends, and anywhere else.

use super::promise::Promise;
use super::trace::Happening;
use rand::Rng;
use rand::seq::IndexedRandom;

/// `count` moments in order; a moment is the number of happenings before it.
pub(crate) fn cuts(
    happenings: &[Happening],
    promises: &[Promise],
    count: usize,
    random: &mut impl Rng,
) -> Vec<usize> {
    let after_words: Vec<usize> = promises.iter().map(|promise| promise.since + 1).collect();
    let is_sync_end = |index: &usize| matches!(happenings[*index], Happening::SyncEnded { .. });
    let before_sync_ends: Vec<usize> = (0..happenings.len()).filter(is_sync_end).collect();
    let mut cuts: Vec<usize> = (0..count)
        .map(|number| {
            let chosen = match number % 4 {
                0 | 1 => after_words.choose(random),
                2 => before_sync_ends.choose(random),
                _ => None,
            };
            chosen.copied().unwrap_or_else(|| random.random_range(0..=happenings.len()))
        })
        .collect();
    cuts.sort_unstable();
    cuts
}

#[cfg(test)]
mod tests {
    use super::super::promise::Promised;
    use super::*;
    use rand::SeedableRng;
    use rand::rngs::StdRng;

    #[test]
    fn half_of_the_cuts_come_right_after_words_and_a_quarter_before_a_sync_ends() {
        let path = "/h/log".to_owned();
        let happenings: Vec<Happening> = (0..1_000)
            .map(|number| match number {
                500 => Happening::SyncEnded { thread: 1, path: path.clone(), worked: true },
                _ => Happening::Created { path: path.clone() },
            })
            .collect();
        let promises = [Promise { since: 600, what: Promised::Event { id: "evt_1".to_owned() } }];
        let cuts = cuts(&happenings, &promises, 400, &mut StdRng::seed_from_u64(7));
        assert!(cuts.is_sorted() && cuts.len() == 400);
        assert!(cuts.iter().filter(|cut| **cut == 601).count() >= 200);
        assert!(cuts.iter().filter(|cut| **cut == 500).count() >= 100);
    }
}
