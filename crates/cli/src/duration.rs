//! Spans of time as people type them: `30s`, `500ms`, `2m`, `1h`, `7d`; a bare number is seconds.

use std::time::Duration;

pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let digits = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let number: u64 =
        number.parse().map_err(|_| format!("{text:?} is not a span of time such as 30s or 2m"))?;
    let milliseconds = match unit {
        "ms" => 1,
        "" | "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return Err(format!("{unit:?} is not one of ms, s, m, h, d")),
    };
    number.checked_mul(milliseconds).map(Duration::from_millis).ok_or_else(|| format!("{text:?} is too long"))
}

/// Milliseconds as people read them.
pub(crate) fn shown(milliseconds: u64) -> String {
    match milliseconds {
        0..1_000 => format!("{milliseconds} ms"),
        1_000..60_000 => format!("{:.1} s", milliseconds as f64 / 1_000.0),
        60_000..3_600_000 => format!("{} min", milliseconds / 60_000),
        3_600_000..172_800_000 => format!("{} h", milliseconds / 3_600_000),
        _ => format!("{} d", milliseconds / 86_400_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_read_as_people_type_them() {
        assert_eq!(parse("30s"), Ok(Duration::from_secs(30)));
        assert_eq!(parse("30"), Ok(Duration::from_secs(30)));
        assert_eq!(parse("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(parse("2d"), Ok(Duration::from_secs(172_800)));
        for bad in ["", "s", "1w", "-1s", "99999999999999999999", "18446744073709551615d"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
