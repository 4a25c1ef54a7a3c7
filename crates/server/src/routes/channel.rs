//! `/api/v2/channels` and `/api/v2/shadow`: what channels may do, and what they held back.

use super::inbox::{self, checked};
use super::outbox_admin;
use crate::json::Json;
use crate::refusal::Refusal;
use crate::state::AppState;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use cortex_api::{ChannelInfo, ChannelList, ErrorBody, ErrorCode, ShadowQuery, ShadowReport, ShadowRow};
use cortex_runtime::ChannelRow;
use cortex_store::ShadowedEvent;
use cortex_types::{ChannelLayer, OutboxStatus};

/// Channels that are listed or were heard of.
#[utoipa::path(get, path = "/api/v2/channels", tag = "channel", responses((status = 200, body = ChannelList)))]
pub(crate) async fn list(State(app): State<AppState>) -> Result<Json<ChannelList>, Refusal> {
    listed(&app).await
}

/// Read the settings of channels again and put them in force.
#[utoipa::path(post, path = "/api/v2/channels/reload", tag = "channel", responses(
    (status = 200, body = ChannelList),
    (status = 409, body = ErrorBody, description = "The settings cannot be read; those before stay in force"),
))]
pub(crate) async fn reload(State(app): State<AppState>) -> Result<Json<ChannelList>, Refusal> {
    let settings = (app.read_channels)().map_err(|problem| Refusal::because(ErrorCode::Conflict, problem))?;
    let suppressed = app.runtime.channels().apply(settings).await?;
    tracing::info!(suppressed, "The modes of channels were read again");
    listed(&app).await
}

/// What would have been sent, beside what was.
#[utoipa::path(get, path = "/api/v2/shadow", tag = "channel", params(ShadowQuery), responses(
    (status = 200, body = ShadowReport), (status = 400, body = ErrorBody),
))]
pub(crate) async fn shadow(
    State(app): State<AppState>,
    query: Result<Query<ShadowQuery>, QueryRejection>,
) -> Result<Json<ShadowReport>, Refusal> {
    let page = inbox::page(checked(query)?.limit, None)?;
    let found = app.runtime.channels().shadow_report(page.limit).await?;
    Ok(Json(ShadowReport { items: found.into_iter().map(shadow_row).collect() }))
}

async fn listed(app: &AppState) -> Result<Json<ChannelList>, Refusal> {
    let desk = app.runtime.channels();
    let settings = desk.settings();
    let items = desk.list().await?.into_iter().map(info).collect();
    Ok(Json(ChannelList { enabled: settings.enabled, default_mode: settings.default_mode, items }))
}

fn info(row: ChannelRow) -> ChannelInfo {
    let state = row.state.as_ref();
    ChannelInfo {
        mode: row.mode,
        is_listed: row.is_listed,
        topic: row.topic,
        last_message_at: state.map(|state| state.last_message_at.into()),
        unread_count: state.map_or(0, |state| state.unread_count),
        layer: state.map_or(ChannelLayer::Archived, |state| state.layer),
        summary: row.state.map(|state| state.summary).unwrap_or_default(),
        name: row.name,
    }
}

fn shadow_row(found: ShadowedEvent) -> ShadowRow {
    let is_held_back = |status| status == OutboxStatus::Suppressed;
    let (held_back, sent): (Vec<_>, Vec<_>) =
        found.messages.into_iter().partition(|message| is_held_back(message.status));
    ShadowRow {
        event: inbox::row(found.event),
        would_have_been_sent: held_back.into_iter().map(outbox_admin::row).collect(),
        sent: sent.into_iter().map(outbox_admin::row).collect(),
    }
}
