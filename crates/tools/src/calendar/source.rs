//! Where calendars come from, and how one is had: from its file, from the net, or as it was when the net was there.

use super::cache::{self, CacheNote, Kept};
use super::fetch::{CalendarFetch, FetchedCalendar};
use super::{BYTES_MAX, Calendar, CalendarError};
use cortex_types::Millis;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use secrecy::{ExposeSecret, SecretString};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A calendar that the user named.
#[derive(Debug, Clone)]
pub struct CalendarSource {
    name: String,
    place: Place,
}

#[derive(Debug, Clone)]
enum Place {
    File(PathBuf),
    /// A private address is as good as a password.
    Address(SecretString),
}

/// Why a source is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CalendarSourceError {
    #[error("a calendar needs a name")]
    NoName,
    #[error("calendar {0:?} has neither a file nor an address")]
    NoPlace(String),
}

/// Within this time a fetched calendar is taken as it is.
const FRESH: Duration = Duration::from_secs(5 * 60);

/// A calendar as far as it could be had, and what has to be said about it.
pub(super) struct Loaded {
    pub(super) calendar: Option<Calendar>,
    pub(super) notes: Vec<String>,
}

impl CalendarSource {
    /// `place` is a path, or an address that starts with `https:`, `http:` or `webcal:`.
    pub fn new(name: &str, place: &str) -> Result<Self, CalendarSourceError> {
        let (name, place) = (name.trim(), place.trim());
        if name.is_empty() {
            return Err(CalendarSourceError::NoName);
        }
        if place.is_empty() {
            return Err(CalendarSourceError::NoPlace(name.to_owned()));
        }
        let address = match place.strip_prefix("webcal://") {
            Some(rest) => Some(format!("https://{rest}")),
            None => {
                ["https://", "http://"].iter().any(|start| place.starts_with(start)).then(|| place.to_owned())
            }
        };
        let place = match address {
            Some(address) => Place::Address(address.into()),
            None => Place::File(place.into()),
        };
        Ok(Self { name: name.to_owned(), place })
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub(super) async fn load(
        &self,
        fetch: &dyn CalendarFetch,
        cache_folder: &Path,
        home: &TimeZone,
        now: Millis,
    ) -> Loaded {
        let had = match &self.place {
            Place::File(path) => read_file(path.clone()).await.map(|bytes| (bytes, None)),
            Place::Address(address) => fetched(address.expose_secret(), fetch, cache_folder, home, now).await,
        };
        let (bytes, note) = match had {
            Ok(had) => had,
            Err(reason) => return self.unreadable(&reason),
        };
        // A large calendar takes a while; the others' turns go on.
        match tokio::task::spawn_blocking(move || Calendar::parse(&bytes)).await {
            Ok(Ok(calendar)) => {
                let mut notes: Vec<String> =
                    note.into_iter().map(|note| format!("{}: {note}", self.name)).collect();
                notes.extend(calendar.faults.iter().map(|fault| self.fault_text(fault.line, &fault.text)));
                Loaded { calendar: Some(calendar), notes }
            }
            Ok(Err(CalendarError::Unreadable { line, text })) => {
                Loaded { calendar: None, notes: vec![self.fault_text(line, &text)] }
            }
            Ok(Err(error @ CalendarError::TooLarge)) => self.unreadable(&error.to_string()),
            Err(error) => self.unreadable(&error.to_string()),
        }
    }

    /// `work.ics:12: …`, or the calendar's name for one from the net.
    pub(super) fn fault_text(&self, line: usize, text: &str) -> String {
        match &self.place {
            Place::File(path) => format!("{}:{line}: {text}", path.display()),
            Place::Address(_) => format!("{}:{line}: {text}", self.name),
        }
    }

    fn unreadable(&self, reason: &str) -> Loaded {
        Loaded { calendar: None, notes: vec![format!("{} cannot be read: {reason}", self.name)] }
    }
}

async fn read_file(path: PathBuf) -> Result<Vec<u8>, String> {
    let shown = path.display().to_string();
    let read = move || {
        let mut bytes = Vec::new();
        // One byte more than is allowed shows that there is more.
        std::fs::File::open(path)?.take(BYTES_MAX as u64 + 1).read_to_end(&mut bytes)?;
        Ok::<_, std::io::Error>(bytes)
    };
    let result = tokio::task::spawn_blocking(read).await.map_err(|error| error.to_string())?;
    result.map_err(|error| format!("{shown}: {error}"))
}

/// The calendar of an address, and a note when it is not the newest.
async fn fetched(
    url: &str,
    fetch: &dyn CalendarFetch,
    folder: &Path,
    home: &TimeZone,
    now: Millis,
) -> Result<(Vec<u8>, Option<String>), String> {
    let (kept_in, key) = (folder.to_owned(), url.to_owned());
    let kept = tokio::task::spawn_blocking(move || cache::read(&kept_in, &key))
        .await
        .map_err(|error| error.to_string())?;
    // A clock that went back makes nothing fresh for ever.
    let is_fresh = |note: &CacheNote| note.fetched_at <= now && now.since(note.fetched_at) < FRESH;
    if let Some(kept) = kept.as_ref().filter(|kept| is_fresh(&kept.note)) {
        return Ok((kept.bytes.clone(), None));
    }
    let known = kept.as_ref().map(|kept| kept.note.validators.clone()).unwrap_or_default();
    let (update, bytes) = match (fetch.fetch_calendar(url, &known).await, kept) {
        (Ok(FetchedCalendar::Changed { bytes, validators }), _) => {
            let kept = Kept { note: CacheNote { fetched_at: now, validators }, bytes: bytes.clone() };
            (Update::All(kept), bytes)
        }
        (Ok(FetchedCalendar::Unchanged), Some(kept)) => {
            (Update::Note(CacheNote { fetched_at: now, ..kept.note }), kept.bytes)
        }
        (Ok(FetchedCalendar::Unchanged), None) => {
            return Err("the server says that nothing changed, but nothing is known".to_owned());
        }
        (Err(error), Some(kept)) => {
            let note = format!(
                "not reachable ({error}); shown as it was on {}",
                day_and_time(kept.note.fetched_at, home)
            );
            return Ok((kept.bytes, Some(note)));
        }
        (Err(error), None) => return Err(format!("{error}, and nothing is kept from before")),
    };
    let (folder, key) = (folder.to_owned(), url.to_owned());
    let written = tokio::task::spawn_blocking(move || update.write(&folder, &key)).await;
    let failure = match written {
        Ok(Ok(())) => None,
        Ok(Err(error)) => Some(error.to_string()),
        Err(error) => Some(error.to_string()),
    };
    Ok((bytes, failure.map(|error| format!("it could not be kept for later: {error}"))))
}

/// What the cache learns.
enum Update {
    All(Kept),
    Note(CacheNote),
}

impl Update {
    fn write(&self, folder: &Path, url: &str) -> std::io::Result<()> {
        match self {
            Self::All(kept) => cache::write(folder, url, kept),
            Self::Note(note) => cache::write_note(folder, url, note),
        }
    }
}

fn day_and_time(at: Millis, home: &TimeZone) -> String {
    Timestamp::from_millisecond(at.0).map_or_else(
        |_| at.0.to_string(),
        |at| at.to_zoned(home.clone()).strftime("%Y-%m-%d at %H:%M").to_string(),
    )
}
