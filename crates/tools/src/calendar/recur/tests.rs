//! Recurrence rules against the examples of RFC 5545 and against their own meaning.

use super::*;
use crate::calendar::rule::rule;
use jiff::civil::datetime;

fn expand(text: &str, start: DateTime, window: (DateTime, DateTime)) -> Vec<DateTime> {
    let mut found = Vec::new();
    let mut budget = Budget::of(1_000_000);
    local_times(&rule(text).unwrap(), start, window, &mut budget, &mut found).unwrap();
    found
}

const RFC_START: DateTime = datetime(1997, 9, 2, 9, 0, 0, 0);
const FAR: DateTime = datetime(2030, 1, 1, 0, 0, 0, 0);

/// The first times of a rule that starts on Tuesday 2 September 1997 at 9, as month-day, with the year where it changes.
fn check(text: &str, count: usize, expected: &str) {
    check_from(RFC_START, text, count, expected);
}

fn check_from(start: DateTime, text: &str, count: usize, expected: &str) {
    let times = expand(text, start, (start, FAR));
    let mut year = 0;
    let shown: Vec<String> = times
        .iter()
        .take(count)
        .map(|time| {
            let format =
                if std::mem::replace(&mut year, time.year()) == time.year() { "%m-%d" } else { "%Y-%m-%d" };
            let clock = if time.time() == start.time() { "" } else { " %H:%M" };
            time.strftime(&format!("{format}{clock}")).to_string()
        })
        .collect();
    assert_eq!(shown.join(" "), expected, "{text}");
}

#[test]
fn days_and_weeks_repeat_as_in_the_examples() {
    check("FREQ=DAILY;COUNT=3", 9, "1997-09-02 09-03 09-04");
    check("FREQ=DAILY;UNTIL=19970904T090000Z", 9, "1997-09-02 09-03 09-04");
    check("FREQ=DAILY;INTERVAL=10;COUNT=3", 9, "1997-09-02 09-12 09-22");
    check("FREQ=WEEKLY;COUNT=3", 9, "1997-09-02 09-09 09-16");
    check("FREQ=WEEKLY;INTERVAL=2;WKST=SU", 4, "1997-09-02 09-16 09-30 10-14");
    check("FREQ=WEEKLY;COUNT=4;WKST=SU;BYDAY=TU,TH", 9, "1997-09-02 09-04 09-09 09-11");
    check("FREQ=WEEKLY;INTERVAL=2;COUNT=8;WKST=SU;BYDAY=TU,TH", 4, "1997-09-02 09-04 09-16 09-18");
    let start = datetime(1997, 8, 5, 9, 0, 0, 0);
    check_from(
        start,
        "FREQ=WEEKLY;INTERVAL=2;COUNT=4;BYDAY=TU,SU;WKST=MO",
        9,
        "1997-08-05 08-10 08-19 08-24",
    );
    check_from(
        start,
        "FREQ=WEEKLY;INTERVAL=2;COUNT=4;BYDAY=TU,SU;WKST=SU",
        9,
        "1997-08-05 08-17 08-19 08-31",
    );
}

#[test]
fn months_repeat_as_in_the_examples() {
    let friday = datetime(1997, 9, 5, 9, 0, 0, 0);
    check_from(friday, "FREQ=MONTHLY;BYDAY=1FR", 4, "1997-09-05 10-03 11-07 12-05");
    let sunday = datetime(1997, 9, 7, 9, 0, 0, 0);
    check_from(sunday, "FREQ=MONTHLY;INTERVAL=2;BYDAY=1SU,-1SU", 4, "1997-09-07 09-28 11-02 11-30");
    check_from(datetime(1997, 9, 22, 9, 0, 0, 0), "FREQ=MONTHLY;BYDAY=-2MO", 3, "1997-09-22 10-20 11-17");
    check_from(datetime(1997, 9, 28, 9, 0, 0, 0), "FREQ=MONTHLY;BYMONTHDAY=-3", 3, "1997-09-28 10-29 11-28");
    check("FREQ=MONTHLY;BYMONTHDAY=2,15", 4, "1997-09-02 09-15 10-02 10-15");
    check_from(
        datetime(1997, 9, 30, 9, 0, 0, 0),
        "FREQ=MONTHLY;BYMONTHDAY=1,-1",
        4,
        "1997-09-30 10-01 10-31 11-01",
    );
    check_from(
        datetime(2007, 1, 15, 9, 0, 0, 0),
        "FREQ=MONTHLY;BYMONTHDAY=15,30",
        5,
        "2007-01-15 01-30 02-15 03-15 03-30",
    );
    check_from(datetime(2026, 1, 31, 9, 0, 0, 0), "FREQ=MONTHLY", 4, "2026-01-31 03-31 05-31 07-31");
    check("FREQ=MONTHLY;BYDAY=FR;BYMONTHDAY=13", 4, "1998-02-13 03-13 11-13 1999-08-13");
    check_from(
        datetime(1997, 9, 13, 9, 0, 0, 0),
        "FREQ=MONTHLY;BYDAY=SA;BYMONTHDAY=7,8,9,10,11,12,13",
        3,
        "1997-09-13 10-11 11-08",
    );
    check_from(
        datetime(1997, 9, 4, 9, 0, 0, 0),
        "FREQ=MONTHLY;COUNT=3;BYDAY=TU,WE,TH;BYSETPOS=3",
        9,
        "1997-09-04 10-07 11-06",
    );
    check_from(
        datetime(1997, 9, 29, 9, 0, 0, 0),
        "FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-2",
        4,
        "1997-09-29 10-30 11-27 12-30",
    );
}

#[test]
fn years_repeat_as_in_the_examples() {
    check_from(
        datetime(1997, 6, 10, 9, 0, 0, 0),
        "FREQ=YEARLY;COUNT=4;BYMONTH=6,7",
        9,
        "1997-06-10 07-10 1998-06-10 07-10",
    );
    check_from(
        datetime(1997, 1, 1, 9, 0, 0, 0),
        "FREQ=YEARLY;INTERVAL=3;COUNT=4;BYYEARDAY=1,100,200",
        9,
        "1997-01-01 04-10 07-19 2000-01-01",
    );
    check_from(
        datetime(1997, 5, 19, 9, 0, 0, 0),
        "FREQ=YEARLY;BYDAY=20MO",
        3,
        "1997-05-19 1998-05-18 1999-05-17",
    );
    check_from(
        datetime(1997, 5, 12, 9, 0, 0, 0),
        "FREQ=YEARLY;BYWEEKNO=20;BYDAY=MO",
        3,
        "1997-05-12 1998-05-11 1999-05-17",
    );
    check_from(
        datetime(1997, 3, 13, 9, 0, 0, 0),
        "FREQ=YEARLY;BYMONTH=3;BYDAY=TH",
        4,
        "1997-03-13 03-20 03-27 1998-03-05",
    );
    check_from(
        datetime(1996, 11, 5, 9, 0, 0, 0),
        "FREQ=YEARLY;INTERVAL=4;BYMONTH=11;BYDAY=TU;BYMONTHDAY=2,3,4,5,6,7,8",
        3,
        "1996-11-05 2000-11-07 2004-11-02",
    );
    check_from(datetime(2024, 2, 29, 9, 0, 0, 0), "FREQ=YEARLY", 2, "2024-02-29 2028-02-29");
    check_from(datetime(2026, 12, 31, 9, 0, 0, 0), "FREQ=YEARLY;BYYEARDAY=-1", 2, "2026-12-31 2027-12-31");
}

#[test]
fn hours_and_minutes_repeat_as_in_the_examples() {
    check("FREQ=HOURLY;INTERVAL=3;UNTIL=19970902T170000Z", 9, "1997-09-02 09-02 12:00 09-02 15:00");
    check("FREQ=MINUTELY;INTERVAL=90;COUNT=3", 9, "1997-09-02 09-02 10:30 09-02 12:00");
    check(
        "FREQ=DAILY;BYHOUR=9,10;BYMINUTE=0,20;COUNT=5",
        9,
        "1997-09-02 09-02 09:20 09-02 10:00 09-02 10:20 09-03",
    );
    check(
        "FREQ=MINUTELY;INTERVAL=20;BYHOUR=16;COUNT=4",
        9,
        "1997-09-02 16:00 09-02 16:20 09-02 16:40 09-03 16:00",
    );
}

#[test]
fn a_window_far_from_the_start_gives_what_walking_there_gives() {
    let from = datetime(2026, 3, 1, 12, 30, 0, 0);
    let to = datetime(2026, 4, 15, 0, 0, 0, 0);
    for text in [
        "FREQ=DAILY;INTERVAL=7",
        "FREQ=WEEKLY;INTERVAL=3;BYDAY=MO,SU;WKST=SU",
        "FREQ=MONTHLY;INTERVAL=5;BYDAY=-1FR",
        "FREQ=YEARLY;BYDAY=10MO",
        "FREQ=YEARLY;BYWEEKNO=-1,1,12;WKST=SU",
        "FREQ=HOURLY;INTERVAL=37",
        "FREQ=MINUTELY;INTERVAL=1001",
        "FREQ=MONTHLY;BYMONTHDAY=31",
        "FREQ=WEEKLY;BYDAY=TU;BYSETPOS=1",
    ] {
        let near = expand(text, RFC_START, (from, to));
        let walked = expand(text, RFC_START, (RFC_START, to));
        let walked: Vec<DateTime> = walked.into_iter().filter(|time| *time >= from).collect();
        assert_eq!(near, walked, "{text}");
        assert!(near.windows(2).all(|pair| pair[0] < pair[1]), "{text}");
    }
}

#[test]
fn a_rule_that_never_or_always_comes_ends_with_the_budget_or_the_window() {
    let window = (datetime(2026, 1, 1, 0, 0, 0, 0), datetime(2027, 1, 1, 0, 0, 0, 0));
    assert_eq!(expand("FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30", RFC_START, window), []);
    for text in
        ["FREQ=SECONDLY", "FREQ=SECONDLY;COUNT=4000000000", "FREQ=SECONDLY;BYMONTH=2;BYMONTHDAY=30;COUNT=1"]
    {
        let mut found = Vec::new();
        let mut budget = Budget::of(10_000);
        let result = local_times(&rule(text).unwrap(), RFC_START, window, &mut budget, &mut found);
        assert_eq!(result, Err(OverBudget), "{text}");
        assert!(found.len() <= 10_000);
    }
}
