//! What the hits in a conversation say about the turns around them, and about who spoke.

use super::terms::words;
use cortex_types::TurnPlace;
use std::collections::{BTreeSet, HashMap};

/// An answer follows its question more often than it goes before it.
const SHARE_OF_NEXT: f64 = 0.2;
const SHARE_OF_PREVIOUS: f64 = 0.1;
/// Who is named in a question is mostly who said the answer.
const NAMED_SPEAKER: f64 = 1.5;

/// Ranks turns anew: a turn beside a hit gains some of its score, and so does one whose speaker the query names.
/// `places` are those of the hits and of the turns beside them. At most 1, best first, equal ones newer first.
pub fn rank_turns(query: &str, hits: &[(i64, f64)], places: &[TurnPlace]) -> Vec<(i64, f64)> {
    let own: HashMap<i64, f64> = hits.iter().copied().collect();
    let score = |id: Option<i64>| id.and_then(|id| own.get(&id)).copied().unwrap_or(0.0);
    let asked: BTreeSet<String> = words(query).into_iter().collect();
    let is_named = |speaker: &str| words(speaker).iter().any(|word| asked.contains(word));
    let mut ranked: Vec<(i64, f64)> = places
        .iter()
        .map(|place| {
            let around = score(place.before) * SHARE_OF_NEXT + score(place.after) * SHARE_OF_PREVIOUS;
            let named = if is_named(&place.speaker) { NAMED_SPEAKER } else { 1.0 };
            (place.id, (score(Some(place.id)) + around) * named)
        })
        .collect();
    // Only as much as it takes to stay within 1: what was said stands beside facts and must not always come behind.
    let best = ranked.iter().map(|(_, score)| *score).fold(1.0, f64::max);
    ranked.iter_mut().for_each(|(_, score)| *score /= best);
    ranked.sort_by(|one, other| other.1.total_cmp(&one.1).then(other.0.cmp(&one.0)));
    ranked
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(id: i64, speaker: &str) -> TurnPlace {
        TurnPlace { id, before: Some(id - 1), after: Some(id + 1), speaker: speaker.to_owned() }
    }

    #[track_caller]
    fn check(query: &str, hits: &[(i64, f64)], expected: &[i64]) {
        let places: Vec<TurnPlace> =
            (1..=5).map(|id| place(id, if id % 2 == 0 { "Ada Lovelace" } else { "bob" })).collect();
        let ranked = rank_turns(query, hits, &places);
        assert!(ranked.iter().all(|(_, score)| (0.0..=1.0).contains(score)));
        let order: Vec<i64> = ranked.iter().filter(|(_, score)| *score > 0.0).map(|(id, _)| *id).collect();
        assert_eq!(order, expected, "{query:?} {ranked:?}");
    }

    #[test]
    fn what_follows_a_hit_gains_more_than_what_goes_before() {
        check("the museum", &[(3, 1.0)], &[3, 4, 2]);
        check("the museum", &[(1, 0.9), (3, 1.0)], &[3, 1, 2, 4]);
    }

    #[test]
    fn a_named_speaker_goes_first_among_equals() {
        check("What did Ada see?", &[(3, 1.0), (4, 0.95)], &[4, 3, 5, 2]);
        check("What did Bob see?", &[(3, 1.0), (4, 0.95)], &[3, 4, 5, 2]);
        check("What was seen?", &[], &[]);
    }
}
