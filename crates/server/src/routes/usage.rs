//! `GET /api/v2/usage`: what the models were asked and what it cost.

use super::inbox::checked;
use crate::json::Json;
use crate::refusal::Refusal;
use crate::state::AppState;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use cortex_api::{ErrorBody, UsageBy, UsageCounts, UsageQuery, UsageReport, UsageRow};
use cortex_store::{UsageGroup, UsageTotals};
use cortex_types::Millis;

/// Sums of model calls.
#[utoipa::path(get, path = "/api/v2/usage", tag = "admin", params(UsageQuery), responses(
    (status = 200, body = UsageReport), (status = 400, body = ErrorBody),
))]
pub(crate) async fn usage(
    State(app): State<AppState>,
    query: Result<Query<UsageQuery>, QueryRejection>,
) -> Result<Json<UsageReport>, Refusal> {
    let query = checked(query)?;
    let by = query.by.unwrap_or_default();
    let group = match by {
        UsageBy::Model => UsageGroup::Model,
        UsageBy::Day => UsageGroup::Day,
        UsageBy::Provider => UsageGroup::Provider,
    };
    let since = query.since.map_or(Millis(i64::MIN), |since| since.0);
    let found = app.store.usage_by(group, since).await?;
    let mut total = UsageCounts::default();
    for row in &found {
        add(&mut total, &row.totals);
    }
    let rows =
        found.into_iter().map(|row| UsageRow { key: row.group, counts: counts(&row.totals) }).collect();
    Ok(Json(UsageReport { by, since: query.since, rows, total }))
}

fn counts(totals: &UsageTotals) -> UsageCounts {
    let mut counts = UsageCounts::default();
    add(&mut counts, totals);
    counts
}

fn add(sum: &mut UsageCounts, totals: &UsageTotals) {
    sum.calls += totals.calls;
    sum.failed += totals.failed;
    sum.input_tokens += totals.tokens.input;
    sum.output_tokens += totals.tokens.output;
    sum.cached_tokens += totals.tokens.cached;
    sum.cost_micros += totals.cost_micros;
    sum.latency_ms += totals.latency_ms;
}
