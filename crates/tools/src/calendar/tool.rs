//! `calendar.list`, `calendar.next` and `calendar.search`.

use super::agenda::Window;
use super::answer::{Desk, Question, YEAR_DAYS, earlier, later};
use super::fetch::CalendarFetch;
use super::listing::CalendarListing;
use super::source::CalendarSource;
use crate::tool::{
    CallContext, Mutation, ToolCallError, ToolDefinition, ToolName, ToolNameError, ToolOutcome, ToolRunner,
    ToolSource,
};
use async_trait::async_trait;
use cortex_types::Millis;
use jiff::Timestamp;
use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use serde::Deserialize;
use std::path::PathBuf;
use std::sync::Arc;

const LIST_SCHEMA: &str = r#"{"type":"object","properties":{"from":{"type":"string","description":"today, tomorrow, a date (2026-06-11) or a time (2026-06-11T09:00, in the user's zone unless it has an offset)","maxLength":40},"to":{"type":"string","description":"like from; a day counts to its end","maxLength":40},"format":{"type":"string","enum":["text","json"]}},"required":["from","to"],"additionalProperties":false}"#;
const NEXT_SCHEMA: &str = r#"{"type":"object","properties":{"limit":{"type":"integer","minimum":1,"maximum":50,"description":"how many events; 5 when left out"},"format":{"type":"string","enum":["text","json"]}},"additionalProperties":false}"#;
const SEARCH_SCHEMA: &str = r#"{"type":"object","properties":{"query":{"type":"string","description":"words that title, place or description hold","minLength":1,"maxLength":200},"from":{"type":"string","description":"today, tomorrow, a date or a time; a year ago when left out","maxLength":40},"to":{"type":"string","description":"like from; in a year when left out","maxLength":40},"format":{"type":"string","enum":["text","json"]}},"required":["query"],"additionalProperties":false}"#;

const NEXT_DEFAULT: usize = 5;
const WINDOW_DAYS_MAX: i64 = 5 * 366;

/// Runs the calendar tools over the calendars that the user named.
pub struct CalendarTools {
    sources: Vec<CalendarSource>,
    home: TimeZone,
    cache_folder: PathBuf,
    fetch: Arc<dyn CalendarFetch>,
}

/// Whether a calendar can be read, and what is wrong with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CalendarLook {
    pub name: String,
    pub is_readable: bool,
    pub notes: Vec<String>,
}

#[derive(Deserialize, Clone, Copy, Default)]
#[serde(rename_all = "lowercase")]
enum Format {
    #[default]
    Text,
    Json,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ListArguments {
    from: String,
    to: String,
    #[serde(default)]
    format: Format,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NextArguments {
    limit: Option<usize>,
    #[serde(default)]
    format: Format,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SearchArguments {
    query: String,
    from: Option<String>,
    to: Option<String>,
    #[serde(default)]
    format: Format,
}

impl CalendarTools {
    /// `home` is the zone of times without one; fetched calendars are kept in `cache_folder`.
    pub fn new(
        sources: Vec<CalendarSource>,
        home: TimeZone,
        cache_folder: PathBuf,
        fetch: Arc<dyn CalendarFetch>,
    ) -> Self {
        Self { sources, home, cache_folder, fetch }
    }

    /// Reads each calendar and says what came of it.
    pub async fn look(&self, now: Millis) -> Vec<CalendarLook> {
        let load = |source: &CalendarSource| {
            let source = source.clone();
            async move {
                let loaded = source.load(&*self.fetch, &self.cache_folder, &self.home, now).await;
                let name = source.name().to_owned();
                CalendarLook { name, is_readable: loaded.calendar.is_some(), notes: loaded.notes }
            }
        };
        futures::future::join_all(self.sources.iter().map(load)).await
    }

    pub fn definitions() -> Result<Vec<ToolDefinition>, ToolNameError> {
        let define = |tool: &str, description: &str, schema: &str| {
            Ok(ToolDefinition {
                name: ToolName::new("calendar", tool)?,
                description: description.to_owned(),
                input_schema_json: schema.to_owned(),
                mutation: Mutation::ReadOnly,
                source: ToolSource::BuiltIn,
                timeout: None,
            })
        };
        Ok(vec![
            define(
                "list",
                "Lists what is on the user's calendars from one day or time to another, also what is already under way.",
                LIST_SCHEMA,
            )?,
            define("next", "Lists what is on now and what comes next on the user's calendars.", NEXT_SCHEMA)?,
            define("search", "Finds events on the user's calendars by words.", SEARCH_SCHEMA)?,
        ])
    }

    /// Reads the calendars and answers; the work of that is done where it holds up nobody's turn.
    async fn ask(&self, question: Question, now: Millis) -> Result<CalendarListing, ToolCallError> {
        let load = |source: CalendarSource| async move {
            let loaded = source.load(&*self.fetch, &self.cache_folder, &self.home, now).await;
            (source, loaded)
        };
        let calendars = futures::future::join_all(self.sources.iter().cloned().map(load)).await;
        let desk = Desk { calendars, home: self.home.clone(), now: moment(now) };
        tokio::task::spawn_blocking(move || desk.answer(&question))
            .await
            .map_err(|error| ToolCallError::Failed(error.to_string()))
    }

    fn window(&self, from: Option<&str>, to: Option<&str>, now: Millis) -> Result<Window, ToolCallError> {
        let now = moment(now);
        let read = |text: &str, edge| {
            edge_of(text, now, &self.home, edge).ok_or_else(|| {
                ToolCallError::NotRun(format!(
                    "{text:.40?} is no time; use today, tomorrow, 2026-06-11 or 2026-06-11T09:00"
                ))
            })
        };
        let from = from.map_or_else(|| Ok(earlier(now, YEAR_DAYS)), |from| read(from, Edge::Start))?;
        let to = to.map_or_else(|| Ok(later(now, YEAR_DAYS)), |to| read(to, Edge::End))?;
        if to <= from {
            return Err(ToolCallError::NotRun("to is not after from".to_owned()));
        }
        if to > later(from, WINDOW_DAYS_MAX) {
            return Err(ToolCallError::NotRun("from and to are more than five years apart".to_owned()));
        }
        Ok(Window { from, to })
    }
}

#[async_trait]
impl ToolRunner for CalendarTools {
    async fn run(
        &self,
        name: &ToolName,
        arguments_json: &str,
        context: &CallContext,
    ) -> Result<ToolOutcome, ToolCallError> {
        let now = context.now;
        let work = async {
            Ok(match name.tool() {
                "list" => {
                    let arguments: ListArguments = read(arguments_json)?;
                    let window = self.window(Some(&arguments.from), Some(&arguments.to), now)?;
                    (self.ask(Question::Within(window), now).await?, arguments.format)
                }
                "next" => {
                    let arguments: NextArguments = read(arguments_json)?;
                    let limit = arguments.limit.unwrap_or(NEXT_DEFAULT);
                    (self.ask(Question::Next { limit }, now).await?, arguments.format)
                }
                "search" => {
                    let arguments: SearchArguments = read(arguments_json)?;
                    let window = self.window(arguments.from.as_deref(), arguments.to.as_deref(), now)?;
                    let question = Question::Search { query: arguments.query, window };
                    (self.ask(question, now).await?, arguments.format)
                }
                other => return Err(ToolCallError::NotRun(format!("there is no calendar.{other}"))),
            })
        };
        let (listing, format) = tokio::select! {
            result = work => result?,
            () = context.cancel.cancelled() => return Err(ToolCallError::Failed("cancelled".to_owned())),
        };
        let text = match format {
            Format::Text => listing.to_text(),
            Format::Json => listing.to_json().map_err(|error| ToolCallError::Failed(error.to_string()))?,
        };
        Ok(ToolOutcome { text })
    }
}

fn read<'a, T: Deserialize<'a>>(arguments_json: &'a str) -> Result<T, ToolCallError> {
    serde_json::from_str(arguments_json).map_err(|error| ToolCallError::NotRun(error.to_string()))
}

fn moment(at: Millis) -> Timestamp {
    Timestamp::from_millisecond(at.0).unwrap_or(Timestamp::UNIX_EPOCH)
}

/// Which end of a day is meant when only the day is given.
#[derive(Clone, Copy)]
enum Edge {
    Start,
    End,
}

fn edge_of(text: &str, now: Timestamp, home: &TimeZone, edge: Edge) -> Option<Timestamp> {
    let text = text.trim();
    if let Ok(at) = text.parse::<Timestamp>() {
        return Some(at);
    }
    let today = home.to_datetime(now).date();
    let day = match text.to_lowercase().as_str() {
        "now" => return Some(now),
        "today" => today,
        "tomorrow" => today.tomorrow().ok()?,
        "yesterday" => today.yesterday().ok()?,
        _ if text.len() > 10 => return home.to_timestamp(text.parse::<DateTime>().ok()?).ok(),
        _ => text.parse::<Date>().ok()?,
    };
    let day = match edge {
        Edge::Start => day,
        Edge::End => day.tomorrow().ok()?,
    };
    home.to_timestamp(day.at(0, 0, 0, 0)).ok()
}
