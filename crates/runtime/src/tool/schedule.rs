//! `schedule.*`: people make, see and change schedules by talking; what they approve is a cron with its next fires.

use crate::scheduler::{plan, settle};
use async_trait::async_trait;
use cortex_brain::{Cron, Reminder, Schedule, When, next_fires, parse_reminder, parse_when};
use cortex_store::{JobChange, NewJob, ScheduledJob, Store, StoreError, Timing};
use cortex_tools::{
    CallContext, Mutation, PreparedArguments, ToolCallError, ToolDefinition, ToolName, ToolOutcome,
    ToolRunner, ToolSource,
};
use cortex_types::{CatchUp, ChannelSettings, Millis, Sight};
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use tokio::sync::watch;

const SKILL: &str = "schedule";
const FIRES_SHOWN: usize = 3;
/// How a refusal begins that a model should pass on as a question.
pub(crate) const ASK_THE_USER: &str = "ask the user: ";
const EXAMPLES: &str = "Say for example: every weekday at 9, every 2 hours, tomorrow 17:30.";

/// Runs the `schedule.*` tools on the store.
pub(crate) struct ScheduleTools {
    pub(crate) store: Store,
    pub(crate) timezone: String,
    pub(crate) channels: watch::Receiver<Arc<ChannelSettings>>,
}

/// What `create` and `update` take; `prepare` replaces `when` by `cron` or `runAt`.
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Wish {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    when: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cron: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    run_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    timezone: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    what: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    catch_up: Option<CatchUp>,
}

impl ScheduleTools {
    /// What is offered to the model.
    pub(crate) fn definitions() -> Vec<ToolDefinition> {
        let timing = r#""when":{"type":"string","description":"English, such as 'every weekday at 9' or 'tomorrow 17:30'"},
            "cron":{"type":"string","description":"five fields, instead of when"},
            "runAt":{"type":"string","description":"RFC 3339, for one run, instead of when"},
            "timezone":{"type":"string","description":"IANA name"},
            "catchUp":{"enum":["once","skip"]}"#;
        let id = r#""id":{"type":"integer","description":"the job's number"}"#;
        let what =
            r#""what":{"type":"string","description":"what the assistant is told when the time comes"}"#;
        let text = r#""text":{"type":"string","description":"instead of when and what: the user's own sentence, such as 'remind me every weekday at 9 to stretch'"}"#;
        let create = format!("{timing},{what},{text}");
        let update = format!("{id},{timing},{what}");
        let tools = [
            ("create", "Create a schedule or a one-time reminder.", create.as_str(), "", Mutation::Mutates),
            ("update", "Change a schedule.", &update, "\"id\"", Mutation::Mutates),
            ("delete", "Delete a schedule.", id, "\"id\"", Mutation::Mutates),
            ("pause", "Pause a schedule.", id, "\"id\"", Mutation::Mutates),
            ("resume", "Resume a paused schedule.", id, "\"id\"", Mutation::Mutates),
            ("list", "List schedules with their next fires.", "", "", Mutation::ReadOnly),
            (
                "preview",
                "Show when a schedule would fire, without creating it.",
                timing,
                "",
                Mutation::ReadOnly,
            ),
        ];
        let named = tools.into_iter().filter_map(|(tool, description, properties, required, mutation)| {
            let input_schema_json = format!(
                r#"{{"type":"object","properties":{{{properties}}},"required":[{required}],"additionalProperties":false}}"#
            );
            Some(ToolDefinition {
                name: ToolName::new(SKILL, tool).ok()?,
                description: description.to_owned(),
                input_schema_json,
                mutation,
                source: ToolSource::BuiltIn,
                timeout: None,
            })
        });
        named.collect()
    }

    /// Makes `when` a cron or a moment; a doubt goes back as a question.
    fn resolve(
        &self,
        wish: &Wish,
        now: Millis,
    ) -> Result<Option<(Schedule, TimeZone, String)>, ToolCallError> {
        let name = wish.timezone.clone().unwrap_or_else(|| self.timezone.clone());
        let zone = self.zone(wish)?;
        let schedule = match (&wish.cron, &wish.run_at, &wish.when) {
            (Some(cron), _, _) => {
                Schedule::Recurring(cron.parse::<Cron>().map_err(|error| not_run(error.to_string()))?)
            }
            (None, Some(at), _) => {
                let at: jiff::Timestamp =
                    at.parse().map_err(|_| not_run("runAt must be RFC 3339".to_owned()))?;
                Schedule::Once(Millis(at.as_millisecond()))
            }
            (None, None, Some(words)) => understood(words, now, &zone)?,
            (None, None, None) => return Ok(None),
        };
        if next_fires(&schedule, &zone, now, 1).is_empty() {
            return Err(not_run("that time has passed; give one in the future".to_owned()));
        }
        Ok(Some((schedule, zone, name)))
    }

    /// Reads the user's own sentence, where one was given; a doubt goes back as a question.
    fn understand(&self, mut wish: Wish, now: Millis) -> Result<Wish, ToolCallError> {
        let Some(text) = wish.text.take() else { return Ok(wish) };
        let zone = self.zone(&wish)?;
        let Some(Reminder { when, what }) = parse_reminder(&text, now, &zone) else {
            return Err(not_run("the text asks for no reminder; give when and what".to_owned()));
        };
        match when {
            When::Recurring(cron) => wish.cron = Some(cron.as_str().to_owned()),
            When::Once(at) => wish.run_at = Some(at.to_rfc3339()),
            When::Ambiguous(question) => return Err(not_run(format!("{ASK_THE_USER}{question}"))),
            When::NotUnderstood => return Err(not_run(format!("{ASK_THE_USER}When exactly? {EXAMPLES}"))),
        }
        wish.what = Some(format!("Reminder: {what}"));
        Ok(wish)
    }

    fn zone(&self, wish: &Wish) -> Result<TimeZone, ToolCallError> {
        let name = wish.timezone.as_deref().unwrap_or(&self.timezone);
        TimeZone::get(name).map_err(|_| {
            not_run(format!("there is no time zone {name:?}; use an IANA name such as Europe/Berlin"))
        })
    }

    async fn create(&self, wish: Wish, context: &CallContext) -> Result<Done, ToolCallError> {
        let job = self.new_job(&wish, wanted(&wish)?, context)?;
        let shown = shown_fires(&job, context.now);
        let id = self.store.schedules().add(job, context.now).await.map_err(unknown)?;
        Ok(Done { text: format!("created schedule {id}; {shown}"), id: Some(id) })
    }

    fn new_job(&self, wish: &Wish, what: String, context: &CallContext) -> Result<NewJob, ToolCallError> {
        let resolved = self.resolve(wish, context.now)?;
        let (schedule, zone, timezone) = resolved.ok_or_else(|| not_run("when is missing".to_owned()))?;
        let next_run_at = next_fires(&schedule, &zone, context.now, 1).first().copied();
        let timing = match schedule {
            Schedule::Recurring(cron) => Timing::Cron(cron.as_str().to_owned()),
            Schedule::Once(at) => Timing::Once(at),
        };
        Ok(NewJob {
            description: what.clone(),
            action: what,
            timing,
            timezone,
            catch_up: wish.catch_up.unwrap_or(CatchUp::Once),
            target: context.topic.clone(),
            created_by: context.user_id.clone(),
            next_run_at,
        })
    }

    async fn update(&self, wish: Wish, context: &CallContext) -> Result<String, ToolCallError> {
        let job = self.known(&wish, context).await?;
        let what = wish.what.clone().unwrap_or_else(|| job.action.clone());
        let new = self.new_job(&merged(wish, &job), what, context)?;
        let shown = shown_fires(&new, context.now);
        let channels = Arc::clone(&self.channels.borrow());
        settle(&self.store, &channels, &job, context.now).await.map_err(unknown)?;
        self.store
            .schedules()
            .change(job.id, JobChange::Replace(Box::new(new)), context.now)
            .await
            .map_err(unknown)?;
        Ok(format!("changed schedule {}; {shown}", job.id))
    }

    async fn change(&self, wish: Wish, tool: &str, context: &CallContext) -> Result<String, ToolCallError> {
        let job = self.known(&wish, context).await?;
        let (change, word) = match tool {
            "pause" => (JobChange::Pause, "paused"),
            "resume" => {
                let (schedule, zone) = plan(&job).map_err(not_run)?;
                let next_run_at = next_fires(&schedule, &zone, context.now, 1).first().copied();
                (JobChange::Resume { next_run_at }, "resumed")
            }
            _ => (JobChange::Delete, "deleted"),
        };
        // Who deletes a job wants no run of it any more, not even one that is due this moment.
        let judged = ScheduledJob { enabled: job.enabled && change != JobChange::Delete, ..job.clone() };
        let channels = Arc::clone(&self.channels.borrow());
        settle(&self.store, &channels, &judged, context.now).await.map_err(unknown)?;
        self.store.schedules().change(job.id, change, context.now).await.map_err(unknown)?;
        Ok(format!("{word} schedule {}: {}", job.id, job.description))
    }

    async fn known(&self, wish: &Wish, context: &CallContext) -> Result<ScheduledJob, ToolCallError> {
        let id = wish.id.ok_or_else(|| not_run("id is missing".to_owned()))?;
        let found = self
            .store
            .schedules()
            .find(id)
            .await
            .map_err(|error| ToolCallError::Failed(error.to_string()))?;
        found
            .filter(|job| is_seen(job, context))
            .ok_or_else(|| not_run(format!("there is no schedule {id}; schedule.list shows them")))
    }

    async fn list(&self, context: &CallContext) -> Result<String, ToolCallError> {
        let mut jobs =
            self.store.schedules().list().await.map_err(|error| ToolCallError::Failed(error.to_string()))?;
        jobs.retain(|job| is_seen(job, context));
        if jobs.is_empty() {
            return Ok("no schedules".to_owned());
        }
        let lines = jobs.iter().map(|job| {
            let next = match (job.enabled, job.next_run_at) {
                (false, _) => "paused".to_owned(),
                (true, Some(at)) => format!("next {}", at.to_rfc3339()),
                (true, None) => "done".to_owned(),
            };
            format!("{}: {} [{} {}] {next}", job.id, job.description, timing_text(&job.timing), job.timezone)
        });
        Ok(lines.collect::<Vec<_>>().join("\n"))
    }

    fn preview(&self, wish: &Wish, now: Millis) -> Result<String, ToolCallError> {
        let resolved = self.resolve(wish, now)?;
        let (schedule, zone, name) = resolved.ok_or_else(|| not_run("when is missing".to_owned()))?;
        Ok(preview_lines(&schedule, &zone, &name, now))
    }
}

#[async_trait]
impl ToolRunner for ScheduleTools {
    async fn prepare(
        &self,
        name: &ToolName,
        arguments_json: &str,
        context: &CallContext,
    ) -> Result<PreparedArguments, ToolCallError> {
        let as_it_is = |preview| Ok(PreparedArguments { arguments_json: arguments_json.to_owned(), preview });
        let mut wish = self.understand(read(arguments_json)?, context.now)?;
        match name.tool() {
            "create" => drop(wanted(&wish)?),
            "update" => {
                let job = self.known(&wish, context).await?;
                wish = merged(wish, &job);
            }
            "list" | "preview" => return as_it_is(None),
            _ => return as_it_is(Some(job_lines(&self.known(&wish, context).await?, context.now))),
        }
        let resolved = self.resolve(&wish, context.now)?;
        let (schedule, zone, timezone) = resolved.ok_or_else(|| not_run("when is missing".to_owned()))?;
        let preview = preview_lines(&schedule, &zone, &timezone, context.now);
        wish = Wish { text: None, when: None, cron: None, run_at: None, timezone: Some(timezone), ..wish };
        match schedule {
            Schedule::Recurring(cron) => wish.cron = Some(cron.as_str().to_owned()),
            Schedule::Once(at) => wish.run_at = Some(at.to_rfc3339()),
        }
        let arguments_json = serde_json::to_string(&wish).map_err(|error| not_run(error.to_string()))?;
        Ok(PreparedArguments { arguments_json, preview: Some(preview) })
    }

    async fn run(
        &self,
        name: &ToolName,
        arguments_json: &str,
        context: &CallContext,
    ) -> Result<ToolOutcome, ToolCallError> {
        Ok(ToolOutcome { text: self.perform(name, arguments_json, context).await?.text })
    }
}

/// What a tool did, and to which job.
pub(crate) struct Done {
    pub(crate) text: String,
    pub(crate) id: Option<i64>,
}

impl ScheduleTools {
    pub(crate) async fn perform(
        &self,
        name: &ToolName,
        arguments_json: &str,
        context: &CallContext,
    ) -> Result<Done, ToolCallError> {
        let wish = read(arguments_json)?;
        let id = wish.id;
        let text = match name.tool() {
            "create" => return self.create(wish, context).await,
            "update" => self.update(wish, context).await?,
            "list" => self.list(context).await?,
            "preview" => self.preview(&wish, context.now)?,
            other => self.change(wish, other, context).await?,
        };
        Ok(Done { text, id })
    }
}

fn read(arguments_json: &str) -> Result<Wish, ToolCallError> {
    serde_json::from_str(arguments_json).map_err(|error| not_run(error.to_string()))
}

/// What was said of the time: cron and a moment as they are written everywhere, else English.
fn understood(words: &str, now: Millis, zone: &TimeZone) -> Result<Schedule, ToolCallError> {
    if let Ok(at) = words.trim().parse::<jiff::Timestamp>() {
        return Ok(Schedule::Once(Millis(at.as_millisecond())));
    }
    if looks_like_cron(words) {
        let cron = words.trim().parse::<Cron>();
        return cron.map(Schedule::Recurring).map_err(|error| not_run(error.to_string()));
    }
    match parse_when(words, now, zone) {
        When::Recurring(cron) => Ok(Schedule::Recurring(cron)),
        When::Once(at) => Ok(Schedule::Once(at)),
        When::Ambiguous(question) => Err(not_run(format!("{ASK_THE_USER}{question}"))),
        When::NotUnderstood => Err(not_run(format!(
            "{words:?} is not understood. {EXAMPLES} Five cron fields such as 0 9 * * 1-5, or a moment such as \
             2030-01-31T09:00:00Z, are fine as well"
        ))),
    }
}

/// Five fields, the first three without a letter: no English sentence begins like that.
fn looks_like_cron(words: &str) -> bool {
    let fields: Vec<&str> = words.split_whitespace().collect();
    fields.len() == 5 && fields[..3].iter().all(|field| !field.contains(char::is_alphabetic))
}

/// What the assistant is to be told when the time comes.
fn wanted(wish: &Wish) -> Result<String, ToolCallError> {
    let what = wish.what.clone().filter(|what| !what.trim().is_empty());
    what.ok_or_else(|| not_run("what is missing".to_owned()))
}

/// In a group only its own schedules are there.
fn is_seen(job: &ScheduledJob, context: &CallContext) -> bool {
    match context.sight {
        Sight::Everything => true,
        Sight::Place | Sight::Nothing => job.target == context.topic,
    }
}

/// A change with what it leaves as it was.
fn merged(mut wish: Wish, job: &ScheduledJob) -> Wish {
    if wish.when.is_none() && wish.cron.is_none() && wish.run_at.is_none() {
        match &job.timing {
            Timing::Cron(cron) => wish.cron = Some(cron.clone()),
            Timing::Once(at) => wish.run_at = Some(at.to_rfc3339()),
        }
    }
    wish.timezone = wish.timezone.or_else(|| Some(job.timezone.clone()));
    wish.catch_up = wish.catch_up.or(Some(job.catch_up));
    wish
}

/// The job that is to be changed, as the person who is asked should know it.
fn job_lines(job: &ScheduledJob, now: Millis) -> String {
    let timing = match plan(job) {
        Ok((schedule, zone)) => preview_lines(&schedule, &zone, &job.timezone, now),
        Err(reason) => reason,
    };
    format!("schedule {}: {}\n{timing}", job.id, job.description)
}

fn preview_lines(schedule: &Schedule, zone: &TimeZone, name: &str, now: Millis) -> String {
    let what = match schedule {
        Schedule::Recurring(cron) => format!("cron {} in {name}", cron.as_str()),
        Schedule::Once(_) => format!("once, in {name}"),
    };
    let fires = next_fires(schedule, zone, now, FIRES_SHOWN);
    let fires: Vec<String> = fires.into_iter().map(|at| local_time(at, zone)).collect();
    format!("{what}\nnext: {}", fires.join(", "))
}

fn shown_fires(job: &NewJob, now: Millis) -> String {
    match job.next_run_at {
        Some(at) => {
            let zone = TimeZone::get(&job.timezone).unwrap_or(TimeZone::UTC);
            format!("{} {}, next {}", timing_text(&job.timing), job.timezone, local_time(at.max(now), &zone))
        }
        None => timing_text(&job.timing),
    }
}

fn timing_text(timing: &Timing) -> String {
    match timing {
        Timing::Cron(cron) => cron.clone(),
        Timing::Once(at) => format!("once at {}", at.to_rfc3339()),
    }
}

fn local_time(at: Millis, zone: &TimeZone) -> String {
    match jiff::Timestamp::from_millisecond(at.0) {
        Ok(timestamp) => timestamp.to_zoned(zone.clone()).strftime("%a %Y-%m-%d %H:%M").to_string(),
        Err(_) => at.0.to_string(),
    }
}

fn not_run(reason: String) -> ToolCallError {
    ToolCallError::NotRun(reason)
}

/// A write that failed may or may not have reached the disk.
fn unknown(error: StoreError) -> ToolCallError {
    ToolCallError::Unknown(error.to_string())
}
