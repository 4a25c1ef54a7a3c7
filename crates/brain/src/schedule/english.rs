//! A schedule in plain words, for the people who are asked about it.

use super::{Cron, Schedule, next_fires};
use cortex_types::Millis;
use jiff::Zoned;
use jiff::tz::TimeZone;

const DAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

/// When a schedule comes, such as `weekdays at 09:00 (Europe/Berlin)? Next: Mon 16 Nov.`, as the end of a question.
pub(crate) fn end_of_question(schedule: &Schedule, zone: &TimeZone, zone_name: &str, now: Millis) -> String {
    let local = |at: Millis| jiff::Timestamp::from_millisecond(at.0).map(|at| at.to_zoned(zone.clone()));
    let next = next_fires(schedule, zone, now, 1).first().and_then(|at| local(*at).ok());
    match (schedule, next) {
        (Schedule::Once(_), Some(at)) => {
            format!("on {} at {} ({zone_name})?", day(&at, &now_in(now, zone)), at.strftime("%H:%M"))
        }
        (Schedule::Once(_), None) => "at a time that has passed?".to_owned(),
        (Schedule::Recurring(cron), next) => {
            let (when, has_time) = match in_words(cron) {
                Some(words) => words,
                None => (format!("at the times of `{}`", cron.as_str()), false),
            };
            let next = next.map(|at| {
                let day = day(&at, &now_in(now, zone));
                if has_time {
                    format!(" Next: {day}.")
                } else {
                    format!(" Next: {day} {}.", at.strftime("%H:%M"))
                }
            });
            format!("{when} ({zone_name})?{}", next.unwrap_or_default())
        }
    }
}

fn now_in(now: Millis, zone: &TimeZone) -> Option<Zoned> {
    jiff::Timestamp::from_millisecond(now.0).ok().map(|at| at.to_zoned(zone.clone()))
}

/// The year only when it is another one.
fn day(at: &Zoned, now: &Option<Zoned>) -> String {
    let is_this_year = now.as_ref().is_some_and(|now| now.year() == at.year());
    at.strftime(if is_this_year { "%a %-d %b" } else { "%a %-d %b %Y" }).to_string()
}

/// The words for a common schedule, and whether they name the time of day.
fn in_words(cron: &Cron) -> Option<(String, bool)> {
    let fields: Vec<&str> = cron.as_str().split_whitespace().collect();
    let [minute, hour, day, month, weekday] = fields.as_slice() else { return None };
    let every = |field: &str| {
        field.strip_prefix("*/").and_then(|step| step.parse::<u8>().ok()).filter(|step| *step > 1)
    };
    let at = || Some(format!("{:02}:{:02}", hour.parse::<u8>().ok()?, minute.parse::<u8>().ok()?));
    let is_any_day = *day == "*" && *month == "*" && *weekday == "*";
    Some(match (*minute, *hour) {
        ("*", "*") if is_any_day => ("every minute".to_owned(), false),
        (minute, "*") if is_any_day && every(minute).is_some() => {
            (format!("every {} minutes", every(minute)?), false)
        }
        ("0", "*") if is_any_day => ("every hour".to_owned(), false),
        ("0", hour) if is_any_day && every(hour).is_some() => {
            (format!("every {} hours", every(hour)?), false)
        }
        (_, _) if *month != "*" => return None,
        (_, _) if *day == "*" => match *weekday {
            "*" => (format!("every day at {}", at()?), true),
            "1-5" | "MON-FRI" => (format!("weekdays at {}", at()?), true),
            "0,6" | "6,0" | "6,7" => (format!("weekends at {}", at()?), true),
            one => {
                let name = DAYS.get(usize::from(one.parse::<u8>().ok()? % 7)).copied()?;
                (format!("every {name} at {}", at()?), true)
            }
        },
        (_, _) if *weekday == "*" => {
            let number = day.parse::<u8>().ok()?;
            (format!("on day {number} of every month at {}", at()?), true)
        }
        (_, _) => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(cron: &str, expected: &str) {
        // Sunday 15 November 2026, noon.
        let now = Millis(1_794_744_000_000);
        let schedule = Schedule::Recurring(cron.parse().unwrap());
        let zone = TimeZone::get("Europe/Berlin").unwrap();
        assert_eq!(end_of_question(&schedule, &zone, "Europe/Berlin", now), expected);
    }

    #[test]
    fn usual_schedules_have_words_and_others_their_cron() {
        check("0 9 * * 1-5", "weekdays at 09:00 (Europe/Berlin)? Next: Mon 16 Nov.");
        check("30 7 * * *", "every day at 07:30 (Europe/Berlin)? Next: Mon 16 Nov.");
        check("0 18 * * 5", "every Friday at 18:00 (Europe/Berlin)? Next: Fri 20 Nov.");
        check("0 10 * * 6,0", "weekends at 10:00 (Europe/Berlin)? Next: Sat 21 Nov.");
        check("5 8 1 * *", "on day 1 of every month at 08:05 (Europe/Berlin)? Next: Tue 1 Dec.");
        check("*/15 * * * *", "every 15 minutes (Europe/Berlin)? Next: Sun 15 Nov 13:15.");
        check("0 */2 * * *", "every 2 hours (Europe/Berlin)? Next: Sun 15 Nov 14:00.");
        check("0 9 * * 1#1", "at the times of `0 9 * * 1#1` (Europe/Berlin)? Next: Mon 7 Dec 09:00.");
        check("0 9 24 12 *", "at the times of `0 9 24 12 *` (Europe/Berlin)? Next: Thu 24 Dec 09:00.");
        check("0 0 1 1 *", "at the times of `0 0 1 1 *` (Europe/Berlin)? Next: Fri 1 Jan 2027 00:00.");
    }

    #[test]
    fn one_moment_is_told_with_its_day_and_time() {
        let now = Millis(1_794_744_000_000);
        let zone = TimeZone::get("Europe/Berlin").unwrap();
        let told = end_of_question(&Schedule::Once(Millis(1_794_846_600_000)), &zone, "Europe/Berlin", now);
        assert_eq!(told, "on Mon 16 Nov at 17:30 (Europe/Berlin)?");
    }
}
