//! What people write, and what it means on Wednesday 10 June 2026 at 14:00 in Berlin.

use super::*;
use crate::schedule::{Reminder, parse_reminder};
use jiff::Timestamp;
use proptest::prelude::*;

fn here() -> (Millis, TimeZone) {
    let now = "2026-06-10T12:00:00Z".parse::<Timestamp>().unwrap();
    (Millis(now.as_millisecond()), TimeZone::get("Europe/Berlin").unwrap())
}

fn shown(when: When) -> String {
    match when {
        When::Recurring(cron) => cron.to_string(),
        When::Once(at) => {
            let at = Timestamp::from_millisecond(at.0).unwrap().to_zoned(here().1);
            at.strftime("%a %Y-%m-%d %H:%M").to_string()
        }
        When::Ambiguous(question) => format!("? {question}"),
        When::NotUnderstood => "-".to_owned(),
    }
}

fn check(table: &[(&str, &str)]) {
    let (now, zone) = here();
    for (text, expected) in table {
        assert_eq!(shown(parse_when(text, now, &zone)), *expected, "{text}");
    }
}

#[test]
fn repeating_days_become_cron() {
    check(&[
        ("every weekday at 9", "0 9 * * 1-5"),
        ("weekdays at 9:30am", "30 9 * * 1-5"),
        ("at 9 on weekdays", "0 9 * * 1-5"),
        ("every day at 7", "0 7 * * *"),
        ("Every day at 07:05.", "5 7 * * *"),
        ("daily at noon", "0 12 * * *"),
        ("daily at midnight", "0 0 * * *"),
        ("every day at 8am and 8pm", "0 8,20 * * *"),
        ("every evening at 8", "0 20 * * *"),
        ("every morning at 6", "0 6 * * *"),
        ("at 10 in the evening every day", "0 22 * * *"),
        ("every day at half past nine", "30 9 * * *"),
        ("every Monday and Thursday at 18:00", "0 18 * * 1,4"),
        ("every Mon, Wed and Fri at 7 am", "0 7 * * 1,3,5"),
        ("Sundays at 10", "0 10 * * 0"),
        ("weekly on Friday 5pm", "0 17 * * 5"),
        ("every week on Tuesday at 11", "0 11 * * 2"),
        ("every weekend at 10", "0 10 * * 0,6"),
        ("monthly on the 1st at 8", "0 8 1 * *"),
        ("on the 1st and 15th of every month at 8", "0 8 1,15 * *"),
        ("every month on the 3rd at noon", "0 12 3 * *"),
        ("first Monday of the month at 8", "0 8 * * 1#1"),
        ("every first Monday of the month at 8", "0 8 * * 1#1"),
        ("on the last Friday of each month at 16:45", "45 16 * * 5L"),
        ("last day of the month at 23:30", "30 23 L * *"),
        ("last weekday of the month at 15:00", "0 15 LW * *"),
        ("every year on 24 December at 18:00", "0 18 24 12 *"),
        ("yearly on December 24th at 6pm", "0 18 24 12 *"),
    ]);
}

#[test]
fn intervals_become_cron() {
    check(&[
        ("every minute", "* * * * *"),
        ("every 15 minutes", "*/15 * * * *"),
        ("every half hour", "*/30 * * * *"),
        ("every fifteen minutes", "*/15 * * * *"),
        ("hourly", "0 * * * *"),
        ("every hour", "0 * * * *"),
        ("every 60 minutes on weekdays", "0 * * * 1-5"),
        ("every 2 hours", "0 */2 * * *"),
        ("every other hour", "0 */2 * * *"),
        ("every hour between 9 and 17 on weekdays", "0 9-17 * * 1-5"),
        ("every 20 minutes from 9am to 5pm", "*/20 9-16 * * *"),
        ("every 2 hours from 9 to 5", "0 9-17/2 * * *"),
    ]);
}

#[test]
fn single_times_become_moments() {
    check(&[
        ("tomorrow 17:30", "Thu 2026-06-11 17:30"),
        ("tomorrow at 9", "Thu 2026-06-11 09:00"),
        ("at 17:30 tomorrow", "Thu 2026-06-11 17:30"),
        ("tomorrow morning at 6", "Thu 2026-06-11 06:00"),
        ("the day after tomorrow at noon", "Fri 2026-06-12 12:00"),
        ("today at 5pm", "Wed 2026-06-10 17:00"),
        ("today at 5", "Wed 2026-06-10 17:00"),
        ("tonight at 8", "Wed 2026-06-10 20:00"),
        ("at midnight", "Thu 2026-06-11 00:00"),
        ("at 17:30", "Wed 2026-06-10 17:30"),
        ("5pm", "Wed 2026-06-10 17:00"),
        ("in 20 minutes", "Wed 2026-06-10 14:20"),
        ("in 2 hours", "Wed 2026-06-10 16:00"),
        ("in an hour and a half", "Wed 2026-06-10 15:30"),
        ("in half an hour", "Wed 2026-06-10 14:30"),
        ("in 1 hour and 5 minutes", "Wed 2026-06-10 15:05"),
        ("in 3 days", "Sat 2026-06-13 14:00"),
        ("in 2 weeks at 9", "Wed 2026-06-24 09:00"),
        ("next Friday at noon", "Fri 2026-06-12 12:00"),
        ("next Wednesday at noon", "Wed 2026-06-17 12:00"),
        ("on Friday at 17:00", "Fri 2026-06-12 17:00"),
        ("Wednesday at 15:00", "Wed 2026-06-10 15:00"),
        ("Wednesday at 13:00", "Wed 2026-06-17 13:00"),
        ("on the 15th at 9", "Mon 2026-06-15 09:00"),
        ("on the 9th at 9", "Thu 2026-07-09 09:00"),
        ("on 24 December at 18:00", "Thu 2026-12-24 18:00"),
        ("on December 24th, 2027 at 6pm", "Fri 2027-12-24 18:00"),
        ("on March 1 at 8", "Mon 2027-03-01 08:00"),
        ("on 29 February at 8", "Tue 2028-02-29 08:00"),
        ("2026-12-24 18:00", "Thu 2026-12-24 18:00"),
        // Comes not at all that night: right after the jump.
        ("on 28 March 2027 at 02:30", "Sun 2027-03-28 03:00"),
    ]);
}

#[test]
fn what_can_be_read_two_ways_is_asked_back() {
    check(&[
        ("every day at 5", "? Is that 05:00 or 17:00?"),
        ("tomorrow at 5:30", "? Is that 05:30 or 17:30?"),
        ("every day", "? At what time?"),
        ("tomorrow", "? At what time?"),
        ("every morning", "? At what time?"),
        ("weekly", "? On which day of the week?"),
        ("monthly at 9", "? On which day of the month?"),
        ("next week", "? On which day, and at what time?"),
        ("today at 9", "? 09:00 has passed today. Should it be tomorrow at 09:00?"),
        ("at 13:59", "? 13:59 has passed today. Should it be tomorrow at 13:59?"),
        ("on 1 January 2020 at 9", "? 1 January 2020 is in the past. Which date is meant?"),
        ("on 31 June at 9", "? There is no such date. Which one is meant?"),
        (
            "monthly on the 31st at 8",
            "? Not every month has a day 31. Should it be the last day of the month instead?",
        ),
        (
            "every 7 minutes",
            "? Every 7 minutes does not divide an hour evenly. Should it be every 6 or every 10 minutes?",
        ),
        (
            "every 5 hours",
            "? Every 5 hours does not divide a day evenly. Should it be every 4 or every 6 hours?",
        ),
        (
            "every 90 minutes",
            "? Every 90 minutes does not divide an hour evenly. Should it be every 30 minutes, or a time of day?",
        ),
        ("every 10 seconds", "? The shortest interval is one minute. Is every minute fine?"),
        (
            "every other week",
            "? Every second day or week does not fit a repeating schedule. Which days should it be?",
        ),
        (
            "every day at 9:00 and 17:30",
            "? Those times differ in their minutes and need one schedule each. Which one first?",
        ),
        ("at 15:00 and 17:00", "? Should that be every day? Otherwise say one time."),
        ("tomorrow at midnight", "? Is that 00:00, at the start of that day, or 24:00, at its end?"),
    ]);
}

#[test]
fn what_is_no_time_is_not_understood() {
    check(&[
        ("", "-"),
        ("stretch", "-"),
        ("9", "-"),
        ("every", "-"),
        ("every day at 25:00", "-"),
        ("every day at 9 to stretch", "-"),
        ("tomorrow every day at 9", "-"),
        ("in 20", "-"),
        ("in 99999 weeks", "-"),
        ("when it rains", "-"),
    ]);
}

#[test]
fn a_reminder_is_a_time_and_a_thing() {
    let (now, zone) = here();
    let read = |text: &str| {
        let Reminder { when, what } = parse_reminder(text, now, &zone)?;
        Some(format!("{} | {what}", shown(when)))
    };
    let table = [
        ("remind me every weekday at 9 to stretch", "0 9 * * 1-5 | stretch"),
        ("remind me every minute to breathe", "* * * * * | breathe"),
        ("Remind me to breathe every minute.", "* * * * * | breathe"),
        ("please remind me in 20 minutes to take the pizza out", "Wed 2026-06-10 14:20 | take the pizza out"),
        ("Every day at 9, remind me to drink Water!", "0 9 * * * | drink Water!"),
        ("remind me tomorrow to call Bob at 5pm", "Thu 2026-06-11 17:00 | call Bob"),
        ("remind me at 9 tomorrow to be there at 10", "Thu 2026-06-11 09:00 | be there at 10"),
        ("remind me about the 2 tickets on Friday at 17:00", "Fri 2026-06-12 17:00 | the 2 tickets"),
        ("set a reminder for tomorrow at 9 to pay rent", "Thu 2026-06-11 09:00 | pay rent"),
        ("remind me to pay rent", "? When should I remind you? | pay rent"),
        ("remind me tomorrow at 9", "? What should I remind you of? | "),
        ("remind me to stretch every day at 5", "? Is that 05:00 or 17:00? | stretch"),
        ("remind me", "? When should I remind you? | "),
    ];
    for (text, expected) in table {
        assert_eq!(read(text).as_deref(), Some(expected), "{text}");
    }
    for text in ["", "hello", "that song reminds me of you", "did Bob remind me yesterday?"] {
        assert_eq!(read(text), None, "{text}");
    }
}

proptest! {
    #[test]
    fn no_text_makes_it_panic(text in "\\PC{0,60}") {
        let (now, zone) = here();
        prop_assert!(!matches!(parse_when(&text, now, &zone), When::Recurring(cron) if cron.as_str().is_empty()));
        if let Some(reminder) = parse_reminder(&format!("remind me {text}"), now, &zone) {
            prop_assert!(reminder.what.len() <= text.len());
        }
    }

    #[test]
    fn no_heap_of_time_words_makes_it_panic(
        words in proptest::collection::vec(proptest::sample::select(&[
            "every", "at", "9", "5pm", "on", "the", "first", "31st", "Monday", "of", "month", "and", "in", "2", "hours",
            "days", "weeks", "next", "tomorrow", "between", "from", "to", "December", "2026", "half", "past", "quarter",
            "99999", "week", "midnight", "morning", "minutes", "year", "last", "day", "other", "12", "0", "in",
        ][..]), 0..12),
        now in -1_000_000_000_000_000i64..1_000_000_000_000_000,
    ) {
        let (_, zone) = here();
        let text = words.join(" ");
        if let When::Once(at) = parse_when(&text, Millis(now), &zone) {
            prop_assert!(at >= Millis(now), "{text}");
        }
    }
}
