//! `/api/v2/schedules`: the owner makes, sees and changes jobs.

use crate::body::JsonBody;
use crate::json::Json;
use crate::path_id::PathId;
use crate::refusal::Refusal;
use crate::state::AppState;
use axum::extract::State;
use cortex_api::{
    ErrorBody, ErrorCode, RunNowAnswer, ScheduleAnswer, ScheduleList, ScheduleRequest, ScheduleRow, SlotRow,
};
use cortex_runtime::{ScheduleDesk, ScheduleError};
use cortex_store::{ScheduledJob, Timing};
use cortex_types::{AcceptedEvent, SlotRecord, TopicRef};
use http::StatusCode;
use serde_json::{Map, Value, json};

const FIRES_SHOWN: usize = 3;
const SLOTS_SHOWN: u32 = 20;
/// Where a job's words go when nobody says: the command line's own topic.
const HOME_SOURCE: &str = "cli";
const HOME_TOPIC: &str = "main";
const OWNER: &str = "cli:owner";

/// All jobs.
#[utoipa::path(get, path = "/api/v2/schedules", tag = "schedule", responses((status = 200, body = ScheduleList)))]
pub(crate) async fn list(State(app): State<AppState>) -> Result<Json<ScheduleList>, Refusal> {
    let desk = app.runtime.schedules();
    let jobs = desk.list().await?;
    Ok(Json(ScheduleList { items: jobs.into_iter().map(|job| row(&desk, job, Vec::new())).collect() }))
}

/// One job with its newest slots.
#[utoipa::path(get, path = "/api/v2/schedules/{id}", tag = "schedule", params(("id" = i64, Path)), responses(
    (status = 200, body = ScheduleRow), (status = 404, body = ErrorBody),
))]
pub(crate) async fn show(
    State(app): State<AppState>,
    PathId(id): PathId,
) -> Result<Json<ScheduleRow>, Refusal> {
    let desk = app.runtime.schedules();
    let job = desk.find(job_id(&id)?).await?;
    let slots = desk.records(job.id, SLOTS_SHOWN).await?;
    Ok(Json(row(&desk, job, slots)))
}

/// Make a job.
#[utoipa::path(post, path = "/api/v2/schedules", tag = "schedule", request_body = ScheduleRequest, responses(
    (status = 201, body = ScheduleAnswer), (status = 400, body = ErrorBody),
))]
pub(crate) async fn create(
    State(app): State<AppState>,
    JsonBody(body): JsonBody,
) -> Result<(StatusCode, Json<ScheduleAnswer>), Refusal> {
    let answer = run_tool(&app, "create", None, body).await?;
    Ok((StatusCode::CREATED, Json(answer)))
}

/// When it would fire, without making it.
#[utoipa::path(post, path = "/api/v2/schedules/preview", tag = "schedule", request_body = ScheduleRequest, responses(
    (status = 200, body = ScheduleAnswer), (status = 400, body = ErrorBody),
))]
pub(crate) async fn preview(
    State(app): State<AppState>,
    JsonBody(mut body): JsonBody,
) -> Result<Json<ScheduleAnswer>, Refusal> {
    body.remove("what");
    Ok(Json(run_tool(&app, "preview", None, body).await?))
}

/// Change a job; what is not named stays.
#[utoipa::path(post, path = "/api/v2/schedules/{id}", tag = "schedule", params(("id" = i64, Path)),
    request_body = ScheduleRequest, responses(
    (status = 200, body = ScheduleAnswer), (status = 400, body = ErrorBody), (status = 404, body = ErrorBody),
))]
pub(crate) async fn update(
    State(app): State<AppState>,
    PathId(id): PathId,
    JsonBody(body): JsonBody,
) -> Result<Json<ScheduleAnswer>, Refusal> {
    Ok(Json(run_tool(&app, "update", Some(job_id(&id)?), body).await?))
}

/// Do not fire until it is resumed.
#[utoipa::path(post, path = "/api/v2/schedules/{id}/pause", tag = "schedule", params(("id" = i64, Path)), responses(
    (status = 200, body = ScheduleAnswer), (status = 404, body = ErrorBody),
))]
pub(crate) async fn pause(
    State(app): State<AppState>,
    PathId(id): PathId,
) -> Result<Json<ScheduleAnswer>, Refusal> {
    Ok(Json(run_tool(&app, "pause", Some(job_id(&id)?), Map::new()).await?))
}

/// Fire again from now on.
#[utoipa::path(post, path = "/api/v2/schedules/{id}/resume", tag = "schedule", params(("id" = i64, Path)), responses(
    (status = 200, body = ScheduleAnswer), (status = 404, body = ErrorBody),
))]
pub(crate) async fn resume(
    State(app): State<AppState>,
    PathId(id): PathId,
) -> Result<Json<ScheduleAnswer>, Refusal> {
    Ok(Json(run_tool(&app, "resume", Some(job_id(&id)?), Map::new()).await?))
}

/// Take a job away.
#[utoipa::path(post, path = "/api/v2/schedules/{id}/delete", tag = "schedule", params(("id" = i64, Path)), responses(
    (status = 200, body = ScheduleAnswer), (status = 404, body = ErrorBody),
))]
pub(crate) async fn delete(
    State(app): State<AppState>,
    PathId(id): PathId,
) -> Result<Json<ScheduleAnswer>, Refusal> {
    Ok(Json(run_tool(&app, "delete", Some(job_id(&id)?), Map::new()).await?))
}

/// Fire once now, beside the schedule.
#[utoipa::path(post, path = "/api/v2/schedules/{id}/run", tag = "schedule", params(("id" = i64, Path)), responses(
    (status = 202, body = RunNowAnswer), (status = 404, body = ErrorBody),
))]
pub(crate) async fn run_now(
    State(app): State<AppState>,
    PathId(id): PathId,
) -> Result<(StatusCode, Json<RunNowAnswer>), Refusal> {
    let accepted = app.runtime.schedules().run_now(job_id(&id)?).await?;
    let event_id = match accepted {
        AcceptedEvent::Queued(event_id) | AcceptedEvent::Duplicate { first: event_id, .. } => event_id,
        AcceptedEvent::ChannelOff => {
            return Err(Refusal::because(ErrorCode::Conflict, "the channel of this schedule is off"));
        }
        AcceptedEvent::NameRefused(why) => {
            return Err(Refusal::because(ErrorCode::Conflict, why.to_string()));
        }
    };
    Ok((StatusCode::ACCEPTED, Json(RunNowAnswer { event_id })))
}

/// The tool does the work, so that the shell and the model cannot differ.
async fn run_tool(
    app: &AppState,
    tool: &str,
    id: Option<i64>,
    mut body: Map<String, Value>,
) -> Result<ScheduleAnswer, Refusal> {
    let desk = app.runtime.schedules();
    if let Some(id) = id {
        desk.find(id).await?;
        body.insert("id".to_owned(), json!(id));
    }
    let mut take = |name: &str, default: &str| match body.remove(name) {
        None | Some(Value::Null) => Ok(default.to_owned()),
        Some(Value::String(text)) if !text.trim().is_empty() => Ok(text),
        Some(_) => Err(Refusal::invalid(vec![format!("{name} must be a non-empty string")])),
    };
    let target = TopicRef { source: take("source", HOME_SOURCE)?, topic_key: take("topicKey", HOME_TOPIC)? };
    let user_id = take("userId", OWNER)?;
    let (text, id) = desk.run_tool(tool, &Value::Object(body).to_string(), target, user_id).await?;
    let schedule = match id {
        Some(id) => match desk.find(id).await {
            Ok(job) => Some(row(&desk, job, Vec::new())),
            Err(ScheduleError::NotFound(_)) => None,
            Err(error) => return Err(error.into()),
        },
        None => None,
    };
    Ok(ScheduleAnswer { text, id, schedule })
}

fn job_id(text: &str) -> Result<i64, Refusal> {
    text.parse().map_err(|_| Refusal::new(ErrorCode::NotFound))
}

fn row(desk: &ScheduleDesk, job: ScheduledJob, slots: Vec<SlotRecord>) -> ScheduleRow {
    let next_fires = if job.enabled { desk.next_fires(&job, FIRES_SHOWN) } else { Vec::new() };
    let (cron, run_at) = match job.timing {
        Timing::Cron(cron) => (cron, None),
        Timing::Once(at) => (String::new(), Some(at.into())),
    };
    ScheduleRow {
        id: job.id,
        description: job.description,
        cron,
        run_at,
        timezone: job.timezone,
        catch_up: job.catch_up,
        source: job.target.source,
        topic_key: job.target.topic_key,
        enabled: job.enabled,
        last_run_at: job.last_run_at.map(Into::into),
        next_fires: next_fires.into_iter().map(Into::into).collect(),
        slots: slots.into_iter().map(slot_row).collect(),
    }
}

fn slot_row(slot: SlotRecord) -> SlotRow {
    SlotRow { outcome: slot.outcome, from: slot.from.into(), to: slot.to.into(), count: slot.count }
}

impl From<ScheduleError> for Refusal {
    fn from(error: ScheduleError) -> Self {
        match error {
            ScheduleError::NotFound(_) => Self::new(ErrorCode::NotFound),
            ScheduleError::Invalid(problem) => Self::invalid(vec![problem]),
            ScheduleError::Unfinished(problem) => Self::because(ErrorCode::StorageUnavailable, problem),
            ScheduleError::Store(error) => error.into(),
        }
    }
}
