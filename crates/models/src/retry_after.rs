//! Reads `Retry-After`: seconds, or a date.

use cortex_types::Millis;
use std::time::Duration;

/// A server cannot make us wait longer than this.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(3600);

/// How long a server asked to be left alone, seen from `now`; `None` when the text says nothing.
pub fn parse_retry_after(text: &str, now: Millis) -> Option<Duration> {
    let text = text.trim();
    let wait = match text.parse::<f64>() {
        Ok(seconds) if seconds.is_nan() || seconds < 0.0 => return None,
        Ok(seconds) => Duration::try_from_secs_f64(seconds).unwrap_or(RETRY_AFTER_MAX),
        Err(_) => {
            let at = jiff::fmt::rfc2822::parse(text).ok()?.timestamp().as_millisecond();
            Millis(at).since(now)
        }
    };
    Some(wait.min(RETRY_AFTER_MAX))
}

#[cfg(test)]
mod tests {
    use super::parse_retry_after;
    use cortex_types::Millis;
    use std::time::Duration;

    #[track_caller]
    fn check(text: &str, expected_ms: Option<u64>) {
        // Sun, 06 Nov 1994 08:49:37 GMT
        let now = Millis(784_111_777_000);
        assert_eq!(parse_retry_after(text, now), expected_ms.map(Duration::from_millis), "{text}");
    }

    #[test]
    fn seconds_and_dates_are_understood_and_bounded() {
        check("7", Some(7_000));
        check(" 1.5 ", Some(1_500));
        check("Sun, 06 Nov 1994 08:50:07 GMT", Some(30_000));
        check("Sun, 06 Nov 1994 08:49:00 GMT", Some(0));
        check("99999999999", Some(3_600_000));
        check("inf", Some(3_600_000));
        check("-3", None);
        check("NaN", None);
        check("soon", None);
        check("", None);
    }
}
