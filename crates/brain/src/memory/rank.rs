//! Several orders of the same things made one: reciprocal rank fusion.

use std::collections::BTreeMap;

/// How slowly the places count less. The usual 60 suits long lists of equal worth; of ours the first places are right.
const FLATTENING: f64 = 10.0;

/// One order, best first, and how much it counts.
#[derive(Debug, Clone, PartialEq)]
pub struct Ranking {
    pub weight: f64,
    pub rows: Vec<i64>,
}

/// Every row with its score, best first: 1 for what every order has first. Equal ones keep the newer row first.
pub fn fuse(rankings: &[Ranking]) -> Vec<(i64, f64)> {
    let mut scores: BTreeMap<i64, f64> = BTreeMap::new();
    for ranking in rankings {
        for (place, row) in ranking.rows.iter().enumerate() {
            *scores.entry(*row).or_default() += ranking.weight / (FLATTENING + place as f64 + 1.0);
        }
    }
    let best: f64 = rankings.iter().map(|ranking| ranking.weight / (FLATTENING + 1.0)).sum();
    let mut fused: Vec<(i64, f64)> = scores.into_iter().map(|(row, score)| (row, score / best)).collect();
    fused.sort_by(|one, other| other.1.total_cmp(&one.1).then(other.0.cmp(&one.0)));
    fused
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(rows: &[i64]) -> Ranking {
        Ranking { weight: 1.0, rows: rows.to_vec() }
    }

    #[test]
    fn what_both_orders_have_beats_what_one_has_first() {
        let fused = fuse(&[order(&[1, 2, 3]), order(&[4, 2, 5])]);
        assert_eq!(fused.iter().map(|(row, _)| *row).collect::<Vec<_>>(), vec![2, 4, 1, 5, 3]);
        assert!(fused.windows(2).all(|pair| pair[0].1 >= pair[1].1));
    }

    #[test]
    fn first_everywhere_is_one_and_a_weight_counts() {
        let fused = fuse(&[order(&[7]), order(&[7])]);
        assert!((fused[0].1 - 1.0).abs() < 1e-12);
        let heavy = Ranking { weight: 3.0, rows: vec![2] };
        assert_eq!(fuse(&[order(&[1]), heavy])[0].0, 2);
        assert_eq!(fuse(&[]), Vec::new());
    }
}
