//! Many measured times, and what is said of them.

use std::time::Duration;

/// What a load reached.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Load {
    /// Requests or messages a second.
    pub(crate) rate: f64,
    pub(crate) p50: Duration,
    pub(crate) p99: Duration,
}

impl Load {
    pub(crate) fn of(mut times: Vec<Duration>, elapsed: Duration) -> Self {
        let rate = times.len() as f64 / elapsed.as_secs_f64();
        times.sort_unstable();
        Self { rate, p50: quantile(&times, 0.50), p99: quantile(&times, 0.99) }
    }
}

/// The value below which this share of the sorted times lies.
fn quantile(sorted: &[Duration], share: f64) -> Duration {
    let last = sorted.len().saturating_sub(1);
    let at = (last as f64 * share).round() as usize;
    sorted.get(at).copied().unwrap_or_default()
}

/// The middle value; of an even number of values the mean of the two in the middle.
pub(crate) fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => f64::NAN,
        count if count % 2 == 1 => values[middle],
        _ => f64::midpoint(values[middle - 1], values[middle]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle_of_the_sorted_values() {
        assert_eq!(median([3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median([4.0, 1.0, 2.0, 3.0]), 2.5);
        assert!(median([]).is_nan());
    }

    #[test]
    fn a_load_knows_its_rate_and_quantiles() {
        let times = (1..=100).rev().map(Duration::from_millis).collect();
        let load = Load::of(times, Duration::from_secs(2));
        assert_eq!(load.rate, 50.0);
        assert_eq!(load.p50, Duration::from_millis(51));
        assert_eq!(load.p99, Duration::from_millis(99));
    }
}
