//! Answers to questions about calendars that are at hand.

use super::agenda::Window;
use super::listing::{CalendarEntry, CalendarListing};
use super::source::{CalendarSource, Loaded};
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};

/// What is asked.
pub(super) enum Question {
    /// What takes place within a window.
    Within(Window),
    /// What is on now and comes next.
    Next { limit: usize },
    /// What holds every word.
    Search { query: String, window: Window },
}

/// The calendars, and where and when they are read.
pub(super) struct Desk {
    pub(super) calendars: Vec<(CalendarSource, Loaded)>,
    pub(super) home: TimeZone,
    pub(super) now: Timestamp,
}

pub(super) const YEAR_DAYS: i64 = 366;
const NEXT_MAX: usize = 50;
const EVENTS_LISTED_MAX: usize = 200;
/// What comes next is mostly near, so a little is looked at first.
const NEXT_DAYS: [i64; 3] = [2, 31, YEAR_DAYS];

impl Desk {
    pub(super) fn answer(&self, question: &Question) -> CalendarListing {
        match question {
            Question::Within(window) => self.listing(*window, |_| true, EVENTS_LISTED_MAX),
            Question::Next { limit } => self.next((*limit).clamp(1, NEXT_MAX)),
            Question::Search { query, window } => {
                let words: Vec<String> = query.split_whitespace().map(str::to_lowercase).collect();
                let has_words = |entry: &CalendarEntry| {
                    let text =
                        format!("{} {} {}", entry.title, entry.location, entry.description).to_lowercase();
                    words.iter().all(|word| text.contains(word))
                };
                self.listing(*window, has_words, EVENTS_LISTED_MAX)
            }
        }
    }

    fn next(&self, limit: usize) -> CalendarListing {
        let within =
            |days| self.listing(Window { from: self.now, to: later(self.now, days) }, |_| true, limit);
        let near = NEXT_DAYS.iter().map(|days| within(*days)).find(|listing| listing.events.len() == limit);
        CalendarListing { more: 0, ..near.unwrap_or_else(|| within(YEAR_DAYS)) }
    }

    fn listing(
        &self,
        window: Window,
        is_wanted: impl Fn(&CalendarEntry) -> bool,
        limit: usize,
    ) -> CalendarListing {
        let mut notes: Vec<String> =
            self.calendars.iter().flat_map(|(_, loaded)| loaded.notes.clone()).collect();
        if self.calendars.is_empty() {
            notes.push("no calendar is configured".to_owned());
        }
        let mut found = Vec::new();
        for (source, loaded) in &self.calendars {
            let Some(calendar) = &loaded.calendar else { continue };
            let mut faults = Vec::new();
            for occurrence in calendar.occurrences(window, &self.home, &mut faults) {
                let entry = CalendarEntry::of(&occurrence, source.name(), &self.home, self.now);
                if is_wanted(&entry) {
                    found.push((occurrence.start, entry));
                }
            }
            notes.extend(faults.iter().map(|fault| source.fault_text(fault.line, &fault.text)));
        }
        found.sort_by_key(|(start, _)| *start);
        let more = found.len().saturating_sub(limit);
        let entries = found.into_iter().take(limit).map(|(_, entry)| entry).collect();
        CalendarListing::new(window, &self.home, entries, more, notes)
    }
}

pub(super) fn later(from: Timestamp, days: i64) -> Timestamp {
    from.checked_add((days * 24).hours()).unwrap_or(Timestamp::MAX)
}

pub(super) fn earlier(from: Timestamp, days: i64) -> Timestamp {
    from.checked_sub((days * 24).hours()).unwrap_or(Timestamp::MIN)
}
