//! Calendars to read: iCalendar files and addresses, what takes place in them, and the tools that say so.

mod agenda;
mod answer;
mod cache;
mod component;
mod event;
mod fetch;
mod line;
mod listing;
mod recur;
mod rule;
mod source;
mod tool;
mod value;
mod windows_zones;
mod zone;

pub use fetch::{CalendarFetch, CalendarFetchError, FetchedCalendar, Validators};
pub use listing::{CalendarEntry, CalendarListing};
pub use source::{CalendarSource, CalendarSourceError};
pub use tool::{CalendarLook, CalendarTools};

use agenda::{Occurrence, Window, occurrences};
use event::CalendarEvent;
use jiff::tz::TimeZone;
use line::LineFault;
use zone::Zones;

/// A calendar in memory.
#[derive(Debug)]
struct Calendar {
    events: Vec<CalendarEvent>,
    faults: Vec<LineFault>,
}

/// Why a calendar cannot be read at all.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
enum CalendarError {
    #[error("larger than {BYTES_MAX} bytes")]
    TooLarge,
    #[error("line {line}: {text}")]
    Unreadable { line: usize, text: String },
}

/// Largest calendar that is read.
const BYTES_MAX: usize = 16 * 1024 * 1024;

impl Calendar {
    /// Reads a calendar. Events that cannot be read are left out and named by line; the others stand.
    fn parse(bytes: &[u8]) -> Result<Self, CalendarError> {
        if bytes.len() > BYTES_MAX {
            return Err(CalendarError::TooLarge);
        }
        let components = component::components(&String::from_utf8_lossy(bytes))
            .map_err(|LineFault { line, text }| CalendarError::Unreadable { line, text })?;
        let mut faults = components.faults;
        let zones = Zones::of(&components.zones, &mut faults);
        let mut events = Vec::with_capacity(components.events.len());
        for component in &components.events {
            match CalendarEvent::read(component, &zones) {
                Ok(event) => events.push(event),
                Err(fault) => faults.push(fault),
            }
        }
        Ok(Self { events, faults })
    }

    fn occurrences(
        &self,
        window: Window,
        home: &TimeZone,
        faults: &mut Vec<LineFault>,
    ) -> Vec<Occurrence<'_>> {
        occurrences(&self.events, window, home, faults)
    }
}
