//! Values of content lines: dates, times, durations, offsets and texts.

use jiff::civil::{Date, DateTime, Time};
use jiff::tz::Offset;

/// A date or a time as written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WrittenTime {
    Day(Date),
    Local(DateTime),
    Utc(DateTime),
}

/// How long something takes: days as the calendar counts them, then exact seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Length {
    pub(super) days: i64,
    pub(super) seconds: i64,
}

/// `20260610`, `20260610T090000`, `20260610T070000Z`.
pub(super) fn written_time(text: &str) -> Option<WrittenTime> {
    let text = text.trim();
    let (day, rest) = text.split_at_checked(8)?;
    let day = Date::new(digits(&day[..4])?, digits(&day[4..6])?, digits(&day[6..])?).ok()?;
    if rest.is_empty() {
        return Some(WrittenTime::Day(day));
    }
    let clock = rest.strip_prefix(['T', 't'])?;
    let (clock, is_utc) = clock.strip_suffix(['Z', 'z']).map_or((clock, false), |clock| (clock, true));
    if clock.len() != 6 || !clock.is_ascii() {
        return None;
    }
    // A leap second is not a time that calendars know.
    let second = digits::<i8>(&clock[4..])?.min(59);
    let time = Time::new(digits(&clock[..2])?, digits(&clock[2..4])?, second, 0).ok()?;
    let at = day.to_datetime(time);
    Some(if is_utc { WrittenTime::Utc(at) } else { WrittenTime::Local(at) })
}

fn digits<T: std::str::FromStr>(text: &str) -> Option<T> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

/// `PT1H30M`, `P1D`, `-PT15M`, `P2W`.
pub(super) fn length(text: &str) -> Option<Length> {
    // No event is longer than the calendar itself.
    const DAYS_MAX: i64 = 3_000_000;
    const AMOUNT_MAX: i64 = DAYS_MAX * 24 * 3_600;
    let text = text.trim();
    let (sign, body) = match text.strip_prefix('-') {
        Some(body) => (-1, body),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let mut found = Length::default();
    let mut number = String::new();
    let mut is_time = false;
    let mut units = 0;
    for letter in body.strip_prefix(['P', 'p'])?.chars() {
        match (letter.to_ascii_uppercase(), is_time) {
            ('0'..='9', _) => number.push(letter),
            ('T', false) if number.is_empty() => is_time = true,
            (unit, _) => {
                let amount: i64 = number.parse().ok().filter(|amount| *amount <= AMOUNT_MAX)?;
                match (unit, is_time) {
                    ('W', false) => found.days += amount * 7,
                    ('D', false) => found.days += amount,
                    ('H', true) => found.seconds += amount * 3_600,
                    ('M', true) => found.seconds += amount * 60,
                    ('S', true) => found.seconds += amount,
                    _ => return None,
                }
                number.clear();
                units += 1;
            }
        }
    }
    let fits = found.days <= DAYS_MAX && found.seconds <= AMOUNT_MAX;
    (number.is_empty() && units > 0 && fits)
        .then_some(Length { days: sign * found.days, seconds: sign * found.seconds })
}

/// `+0100`, `-043000`.
pub(super) fn offset(text: &str) -> Option<Offset> {
    let text = text.trim();
    let sign = match text.as_bytes().first()? {
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    let body = text.get(1..)?;
    if !body.is_ascii() || !(body.len() == 4 || body.len() == 6) {
        return None;
    }
    let seconds = if body.len() == 6 { digits::<i32>(&body[4..])? } else { 0 };
    let total = digits::<i32>(&body[..2])? * 3_600 + digits::<i32>(&body[2..4])? * 60 + seconds;
    Offset::from_seconds(sign * total).ok()
}

/// A text value as people read it: escapes undone, one line, nothing that plays tricks with a screen or a reader.
pub(super) fn plain_text(value: &str) -> String {
    let mut text = String::with_capacity(value.len());
    let mut letters = value.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => match letters.next() {
                Some('n' | 'N') => text.push(' '),
                Some(escaped) => text.push(escaped),
                None => {}
            },
            letter => text.push(letter),
        }
    }
    let is_trick = |letter: char| {
        letter.is_control()
            || matches!(letter, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
    };
    let visible: String = text.chars().map(|letter| if is_trick(letter) { ' ' } else { letter }).collect();
    visible.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::civil::{date, datetime};

    #[test]
    fn dates_and_times_are_read_or_refused() {
        assert_eq!(written_time("20260610"), Some(WrittenTime::Day(date(2026, 6, 10))));
        assert_eq!(
            written_time("20260610T090000"),
            Some(WrittenTime::Local(datetime(2026, 6, 10, 9, 0, 0, 0)))
        );
        assert_eq!(
            written_time("20260610T070000Z"),
            Some(WrittenTime::Utc(datetime(2026, 6, 10, 7, 0, 0, 0)))
        );
        assert_eq!(
            written_time("20260630T235960Z"),
            Some(WrittenTime::Utc(datetime(2026, 6, 30, 23, 59, 59, 0)))
        );
        for bad in [
            "",
            "2026",
            "20260231",
            "20260610T25",
            "20260610T9000",
            "2026061é",
            "ééééé",
            "+2260610",
            "20260610X090000",
        ] {
            assert_eq!(written_time(bad), None, "{bad}");
        }
    }

    #[test]
    fn lengths_and_offsets_are_read_or_refused() {
        assert_eq!(length("PT1H30M"), Some(Length { days: 0, seconds: 5_400 }));
        assert_eq!(length("P2W"), Some(Length { days: 14, seconds: 0 }));
        assert_eq!(length("-P1DT1S"), Some(Length { days: -1, seconds: -1 }));
        for bad in
            ["", "P", "PT", "1H", "PT1", "P1H", "PT99999999999999H", "P4000000D", "PT200000000H", "PT1D", "é"]
        {
            assert_eq!(length(bad), None, "{bad}");
        }
        assert_eq!(offset("-0430").map(|offset| offset.seconds()), Some(-16_200));
        assert_eq!(offset("+003940").map(|offset| offset.seconds()), Some(2_380));
        for bad in ["", "0100", "+1", "+99999", "+é00"] {
            assert_eq!(offset(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_text_is_one_plain_line() {
        assert_eq!(plain_text(r"Lunch\, with\nBob\\Eve\;"), r"Lunch, with Bob\Eve;");
        assert_eq!(plain_text("safe\u{202e}txt.exe\u{7}\tend\\"), "safe txt.exe end");
    }
}
