//! `POST /hooks/{name}`: what CI, a house or a forge has to say becomes an event.

use crate::body;
use crate::guard::peer;
use crate::hook::Believed;
use crate::json::Json;
use crate::refusal::Refusal;
use crate::routes::ingest::answered;
use crate::signature::Doubt;
use crate::state::{App, AppState};
use axum::extract::{Path, Request, State};
use cortex_api::{ErrorBody, ErrorCode, IngestAnswer, IngestStatus};
use cortex_types::limits::BODY_BYTES_MAX;
use http::StatusCode;
use metrics::counter;
use std::net::IpAddr;

/// Hand in a payload of a webhook.
#[utoipa::path(post, path = "/hooks/{name}", tag = "connector", params(("name" = String, Path)),
    request_body(content = String, description = "JSON, a form or text; the hook's settings say what becomes of it"),
    responses(
        (status = 202, body = IngestAnswer, description = "Queued and on disk"),
        (status = 200, body = IngestAnswer, description = "Here before, not of interest, or the channel is off"),
        (status = 400, body = ErrorBody), (status = 401, body = ErrorBody), (status = 404, body = ErrorBody),
        (status = 413, body = ErrorBody), (status = 429, body = ErrorBody),
        (status = 503, body = ErrorBody, description = "The disk does not take it; nothing was kept"),
))]
pub(crate) async fn receive(
    State(app): State<AppState>,
    Path(name): Path<String>,
    request: Request,
) -> Result<(StatusCode, Json<IngestAnswer>), Refusal> {
    let peer = peer(&request);
    // A guess at a name costs what a guess at a key costs.
    let hook = app.hooks.find(&name).ok_or_else(|| charged(&app, peer, ErrorCode::NotFound))?;
    let doubted = |doubt| refused(&app, peer, &name, doubt);
    let (head, body) = request.into_parts();
    hook.check_key(&head.headers).map_err(doubted)?;
    let body = body::read(body, BODY_BYTES_MAX).await?;
    // Whoever signed it looked at a wall clock.
    let now = app.clock.wall();
    hook.check_body(&head.headers, &body, now).map_err(doubted)?;
    let event = hook.event(&Believed { headers: &head.headers, body: &body, now });
    let Some((speaker, event)) = event.map_err(Refusal::invalid)? else {
        counter!("cortex_hooks_ignored_total").increment(1);
        return Ok((StatusCode::OK, Json(IngestAnswer { event_id: None, status: IngestStatus::Ignored })));
    };
    answered(app.intake.accept(&speaker, event).await?)
}

fn refused(app: &App, peer: IpAddr, hook: &str, doubt: Doubt) -> Refusal {
    match doubt {
        Doubt::Missing => Refusal::new(ErrorCode::Unauthorized),
        Doubt::Wrong => charged(app, peer, ErrorCode::Unauthorized),
        Doubt::Stale { seconds_off } => {
            tracing::warn!(hook, seconds_off, "A webhook was signed too long ago or by a clock that is off");
            charged(app, peer, ErrorCode::Unauthorized)
        }
    }
}

fn charged(app: &App, peer: IpAddr, code: ErrorCode) -> Refusal {
    match app.keys.charge_for(peer) {
        Some(wait) => Refusal::new(ErrorCode::TooManyRequests).retry_after(wait),
        None => Refusal::new(code),
    }
}
