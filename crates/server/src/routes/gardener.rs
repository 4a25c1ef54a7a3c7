//! `/api/v2/gardener`: the owner looks at the chores and has one done now.

use crate::json::Json;
use crate::path_id::PathId;
use crate::refusal::Refusal;
use crate::state::AppState;
use axum::extract::State;
use cortex_api::{ErrorBody, ErrorCode, GardenerReport, GardenerRow, GardenerRunAnswer, GardenerThinks};
use cortex_runtime::{Gardener, GardenerAnswer, GardenerMind, GardenerTaskStatus};
use cortex_types::GardenerTask;

/// How the gardener is doing.
#[utoipa::path(get, path = "/api/v2/gardener", tag = "gardener", responses((status = 200, body = GardenerReport)))]
pub(crate) async fn status(State(app): State<AppState>) -> Result<Json<GardenerReport>, Refusal> {
    let status = gardener(&app)?.status().await?;
    Ok(Json(GardenerReport {
        thinks_with: match status.mind {
            GardenerMind::Model => GardenerThinks::Model,
            GardenerMind::Rules => GardenerThinks::Rules,
        },
        tokens_today: status.tokens_today,
        tokens_per_day: status.tokens_per_day,
        tasks: status.tasks.into_iter().map(row).collect(),
    }))
}

/// Run a task now and wait for its end.
#[utoipa::path(post, path = "/api/v2/gardener/{id}/run", tag = "gardener",
    params(("id" = String, Path, description = "compactor, extractor, evictor or harvester")), responses(
    (status = 200, body = GardenerRunAnswer), (status = 404, body = ErrorBody),
    (status = 409, body = ErrorBody, description = "The task runs already"),
))]
pub(crate) async fn run(
    State(app): State<AppState>,
    PathId(id): PathId,
) -> Result<Json<GardenerRunAnswer>, Refusal> {
    let task: GardenerTask = id.parse().map_err(|_| Refusal::new(ErrorCode::NotFound))?;
    let (done, report) = match gardener(&app)?.run_task(task).await? {
        GardenerAnswer::Done { report } => (true, report),
        GardenerAnswer::Failed { reason } => (false, reason),
        GardenerAnswer::AlreadyRunning => {
            return Err(Refusal::because(ErrorCode::Conflict, format!("the {task} runs already")));
        }
    };
    Ok(Json(GardenerRunAnswer { task, done, report }))
}

/// There is none until the models are chosen.
pub(crate) fn gardener(app: &AppState) -> Result<&Gardener, Refusal> {
    app.gardener.get().ok_or_else(|| Refusal::because(ErrorCode::Conflict, "the server is still starting"))
}

fn row(task: GardenerTaskStatus) -> GardenerRow {
    let (last_run_at, last_report, runs) = match task.last {
        Some(run) => (Some(run.last_run_at.into()), Some(run.last_report), run.runs),
        None => (None, None, 0),
    };
    GardenerRow {
        task: task.task,
        interval_seconds: task.task.interval().as_secs(),
        last_run_at,
        last_report,
        runs,
        next_run_at: task.next_run_at.into(),
        is_running: task.is_running,
    }
}
