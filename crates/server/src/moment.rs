//! Moments as connectors write them: ISO 8601, with or without a zone.

use cortex_types::Millis;
use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};

/// Years a message can plausibly come from; a clock outside them is broken.
const YEARS: std::ops::RangeInclusive<i16> = 1970..=2999;

/// Why a text is no moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BadMoment {
    NotIso,
    /// A date, but not of this age.
    Implausible,
}

/// Reads a timestamp, a local date-time or a date; without a zone it is UTC.
pub(crate) fn parse_iso(text: &str) -> Result<Millis, BadMoment> {
    let zoned: Zoned = if let Ok(timestamp) = text.parse::<Timestamp>() {
        timestamp.to_zoned(TimeZone::UTC)
    } else {
        let local = text
            .parse::<DateTime>()
            .or_else(|_| text.parse::<Date>().map(|date| date.to_datetime(jiff::civil::Time::midnight())))
            .map_err(|_| BadMoment::NotIso)?;
        local.to_zoned(TimeZone::UTC).map_err(|_| BadMoment::Implausible)?
    };
    if !YEARS.contains(&zoned.year()) {
        return Err(BadMoment::Implausible);
    }
    Ok(Millis(zoned.timestamp().as_millisecond()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn iso_forms_are_read_and_others_refused() {
        for text in [
            "2026-02-15T20:30:00Z",
            "2026-02-15T21:30:00+01:00",
            "2026-02-15T20:30:00.000Z",
            "2026-02-15T20:30",
        ] {
            assert_eq!(parse_iso(text), Ok(Millis(1_771_187_400_000)), "{text}");
        }
        assert_eq!(parse_iso("2026-02-15"), Ok(Millis(1_771_113_600_000)));
        for text in
            ["", "yesterday", "2026-02-30T00:00:00Z", "1771187400", "Feb 15, 2026", "9999-12-31T23:59:59Z"]
        {
            assert_eq!(parse_iso(text), Err(BadMoment::NotIso), "{text}");
        }
        for text in ["9998-01-01T00:00:00Z", "-000044-03-15T00:00:00Z", "1969-12-31T23:59:59Z", "9999-12-31"]
        {
            assert_eq!(parse_iso(text), Err(BadMoment::Implausible), "{text}");
        }
    }
}
