//! `cortex schedule`.

use crate::connect;
use crate::connector::{SOURCE, TOPIC};
use crate::context::Context;
use crate::escape::{one_line, value};
use crate::exit::{Exit, Failure};
use crate::terminal::talk;
use cortex_api::{Client, ScheduleAnswer, ScheduleList, ScheduleRequest, ScheduleRow, SlotRow, WireTime};
use cortex_types::CatchUp;
use jiff::tz::TimeZone;

const WHERE: &str = "cortex schedule list";
const SAY_BOTH: &str =
    "say when and what, such as: cortex schedule create \"every weekday at 9\" \"stretch\"";

/// Make, see and change what happens at a time of its own
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// List jobs with their next run
    List,
    /// Show one job with its next runs and what became of the last ones
    Show { job: i64 },
    /// Make a job: cortex schedule create "every weekday at 9" "stretch"
    Create {
        /// When, in English, then what the assistant is told at that time; with --cron or --at only what
        #[arg(required = true, value_name = "WORDS")]
        words: Vec<String>,
        #[command(flatten)]
        timing: Timing,
        /// What to do about runs that were missed while the server was down
        #[arg(long, value_enum)]
        catch_up: Option<CatchUpWord>,
        /// The conversation it speaks in
        #[arg(long, default_value = TOPIC)]
        topic: String,
        /// The connector of that conversation
        #[arg(long, default_value = SOURCE)]
        source: String,
    },
    /// Show when it would run, without making it
    Preview {
        /// When, in English
        #[arg(required_unless_present_any = ["cron", "at"], value_name = "WORDS")]
        words: Vec<String>,
        #[command(flatten)]
        timing: Timing,
    },
    /// Change a job; what is not named stays
    Update {
        job: i64,
        /// When, in English
        #[arg(long, conflicts_with_all = ["cron", "at"])]
        when: Option<String>,
        /// What the assistant is told
        #[arg(long)]
        what: Option<String>,
        #[command(flatten)]
        timing: Timing,
        /// What to do about runs that were missed while the server was down
        #[arg(long, value_enum)]
        catch_up: Option<CatchUpWord>,
    },
    /// Do not run it until it is resumed
    Pause { job: i64 },
    /// Run it again from now on
    Resume { job: i64 },
    /// Take it away
    Delete { job: i64 },
    /// Run it once now, beside its times
    Run { job: i64 },
}

#[derive(Debug, clap::Args)]
struct Timing {
    /// Five cron fields, such as "0 9 * * 1-5"
    #[arg(long, conflicts_with = "at")]
    cron: Option<String>,
    /// One moment, such as 2030-01-31T09:00:00Z
    #[arg(long, value_name = "MOMENT")]
    at: Option<String>,
    /// The time zone that is meant, such as Europe/Berlin [default: schedulerTimezone]
    #[arg(long, value_name = "ZONE")]
    timezone: Option<String>,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum CatchUpWord {
    /// Run once for all of them
    Once,
    /// Let them go
    Skip,
}

impl From<CatchUpWord> for CatchUp {
    fn from(word: CatchUpWord) -> Self {
        match word {
            CatchUpWord::Once => Self::Once,
            CatchUpWord::Skip => Self::Skip,
        }
    }
}

impl Timing {
    fn request(&self) -> ScheduleRequest {
        ScheduleRequest {
            cron: self.cron.clone(),
            run_at: self.at.clone(),
            timezone: self.timezone.clone(),
            ..ScheduleRequest::default()
        }
    }

    /// What the words mean: without a flag that says when, all but the last say it.
    fn request_for(&self, words: &[String]) -> Result<ScheduleRequest, Failure> {
        let request = self.request();
        if request.cron.is_some() || request.run_at.is_some() {
            return Ok(ScheduleRequest { what: Some(words.join(" ")), ..request });
        }
        match words.split_last() {
            Some((what, when)) if !when.is_empty() => {
                Ok(ScheduleRequest { when: Some(when.join(" ")), what: Some(what.clone()), ..request })
            }
            Some(_) | None => Err(Failure::Usage(SAY_BOTH.to_owned())),
        }
    }
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, Failure> {
    // What was typed wrongly is told even when no server runs.
    let request = requested(&args.action)?;
    let client = connect::client(context)?;
    context.client_runtime()?.block_on(act(&args.action, &request, &client, context))?;
    Ok(Exit::Ok)
}

fn requested(action: &Action) -> Result<ScheduleRequest, Failure> {
    Ok(match action {
        Action::Create { words, timing, catch_up, topic, source } => ScheduleRequest {
            catch_up: catch_up.map(CatchUp::from),
            topic_key: Some(topic.clone()),
            source: Some(source.clone()),
            ..timing.request_for(words)?
        },
        Action::Preview { words, timing } => {
            let when = (!words.is_empty()).then(|| words.join(" "));
            ScheduleRequest { when, ..timing.request() }
        }
        Action::Update { when, what, timing, catch_up, .. } => {
            let catch_up = catch_up.map(CatchUp::from);
            let request =
                ScheduleRequest { when: when.clone(), what: what.clone(), catch_up, ..timing.request() };
            if request == ScheduleRequest::default() {
                return Err(Failure::Usage(
                    "nothing to change; give --when, --what or another flag".to_owned(),
                ));
            }
            request
        }
        Action::List
        | Action::Show { .. }
        | Action::Pause { .. }
        | Action::Resume { .. }
        | Action::Delete { .. }
        | Action::Run { .. } => ScheduleRequest::default(),
    })
}

async fn act(
    action: &Action,
    request: &ScheduleRequest,
    client: &Client,
    context: &Context,
) -> Result<(), Failure> {
    let about = |job: &i64| Failure::about(format!("schedule {job}"), WHERE);
    let answer = match action {
        Action::List => return list(&client.schedules().await?, context),
        Action::Show { job } => return show(&client.schedule(*job).await.map_err(about(job))?, context),
        Action::Run { job } => {
            let ran = client.run_schedule(*job).await.map_err(about(job))?;
            if context.terminal.json {
                return context.terminal.print_json(&ran);
            }
            return context
                .terminal
                .print(&format!("runs now; `cortex trace {}` shows its way", ran.event_id));
        }
        Action::Create { .. } => client.create_schedule(request).await?,
        Action::Preview { .. } => client.preview_schedule(request).await?,
        Action::Update { job, .. } => client.update_schedule(*job, request).await.map_err(about(job))?,
        Action::Pause { job } => client.pause_schedule(*job).await.map_err(about(job))?,
        Action::Resume { job } => client.resume_schedule(*job).await.map_err(about(job))?,
        Action::Delete { job } => client.delete_schedule(*job).await.map_err(about(job))?,
    };
    told(&answer, context)
}

fn told(answer: &ScheduleAnswer, context: &Context) -> Result<(), Failure> {
    let terminal = &context.terminal;
    if terminal.json { terminal.print_json(answer) } else { terminal.print(&answer.text) }
}

fn list(list: &ScheduleList, context: &Context) -> Result<(), Failure> {
    if context.terminal.json {
        return context.terminal.print_json(list);
    }
    if list.items.is_empty() {
        talk(&format!("no schedules; {SAY_BOTH}"));
        return Ok(());
    }
    let rows: Vec<Vec<String>> = list.items.iter().map(cells).collect();
    context.terminal.print_table(&["job", "next", "when", "zone", "source", "topic", "what"], &rows)
}

fn cells(row: &ScheduleRow) -> Vec<String> {
    vec![
        row.id.to_string(),
        next(row),
        when(row),
        row.timezone.clone(),
        one_line(&row.source, 20),
        one_line(&row.topic_key, 30),
        one_line(&row.description, 60),
    ]
}

fn next(row: &ScheduleRow) -> String {
    match (row.enabled, row.next_fires.first()) {
        (false, _) => "paused".to_owned(),
        (true, Some(at)) => local(*at, &row.timezone),
        (true, None) => "done".to_owned(),
    }
}

fn when(row: &ScheduleRow) -> String {
    match row.run_at {
        Some(at) => format!("once, {}", local(at, &row.timezone)),
        None => row.cron.clone(),
    }
}

fn show(row: &ScheduleRow, context: &Context) -> Result<(), Failure> {
    let terminal = &context.terminal;
    if terminal.json {
        return terminal.print_json(row);
    }
    let mut lines = vec![
        format!("job       {}{}", row.id, if row.enabled { "" } else { " (paused)" }),
        format!("what      {}", value(&row.description)),
        format!("when      {}", when(row)),
        format!("zone      {}", row.timezone),
        format!(
            "missed    {}",
            match row.catch_up {
                CatchUp::Once => "runs once for all that were missed",
                CatchUp::Skip => "lets them go",
            }
        ),
        format!("speaks    {} {}", row.source, row.topic_key),
    ];
    lines.extend(row.last_run_at.map(|at| format!("last      {}", local(at, &row.timezone))));
    lines.extend(row.next_fires.iter().map(|at| format!("next      {}", local(*at, &row.timezone))));
    lines.extend(row.slots.iter().map(|slot| slot_line(slot, &row.timezone)));
    terminal.print(&lines.join("\n"))
}

fn slot_line(slot: &SlotRow, zone: &str) -> String {
    let from = local(slot.from, zone);
    match slot.count {
        1 => format!("slot      {from} {}", slot.outcome),
        count => format!("slot      {from} to {} {} ({count})", local(slot.to, zone), slot.outcome),
    }
}

/// A moment as the clock of the job's zone shows it.
fn local(at: WireTime, zone: &str) -> String {
    let zone = TimeZone::get(zone).unwrap_or(TimeZone::UTC);
    match jiff::Timestamp::from_millisecond(at.0.0) {
        Ok(moment) => moment.to_zoned(zone).strftime("%a %Y-%m-%d %H:%M").to_string(),
        Err(_) => at.0.to_rfc3339(),
    }
}
