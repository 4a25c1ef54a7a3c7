//! What model calls cost: a row a call, summed for people.

use crate::{Store, StoreError, engine::open, flow::inbox};
use cortex_types::limits::TOKENS_PER_CALL_MAX;
use cortex_types::{CallOutcome, EventId, Millis, ModelCall, TokenUsage};
use rusqlite::{Connection, params};
use std::path::Path;

/// What usage is summed by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UsageGroup {
    Model,
    Provider,
    Day,
}

/// The sum of one group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsageSum {
    pub group: String,
    pub totals: UsageTotals,
}

/// Calls, tokens and cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct UsageTotals {
    pub calls: u64,
    pub failed: u64,
    pub tokens: TokenUsage,
    pub cost_micros: u64,
    pub latency_ms: u64,
}

/// How the last call of a profile ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastCall {
    pub profile: String,
    pub model: String,
    pub at: Millis,
    pub error: Option<String>,
}

/// The last call of each profile on the last day that had any, newest first; whoever serves the database.
pub fn last_calls(path: &Path) -> Result<Vec<LastCall>, StoreError> {
    let connection = open::open_for_a_look(path)?;
    let mut statement = connection.prepare(
        "SELECT profile, model, started_at, error FROM usage WHERE id IN
           (SELECT max(id) FROM usage WHERE started_at >= (SELECT max(started_at) FROM usage) - 86400000 GROUP BY profile)
         ORDER BY started_at DESC, id DESC",
    )?;
    let rows = statement.query_map([], |row| {
        Ok(LastCall { profile: row.get(0)?, model: row.get(1)?, at: Millis(row.get(2)?), error: row.get(3)? })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Calls that no event asked for are the gardener's, or a client's that used a provider through this server.
pub(crate) fn record(
    connection: &Connection,
    event_seq: Option<i64>,
    calls: &[ModelCall],
) -> Result<(), StoreError> {
    for call in calls {
        let call = call.clamped();
        let error = match &call.outcome {
            CallOutcome::Answered => None,
            CallOutcome::Failed { error } => Some(error),
        };
        connection
            .prepare_cached(
                "INSERT INTO usage(event_seq, started_at, profile, provider, model, input_tokens, output_tokens,
                   cached_tokens, cost_micros, latency_ms, error)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
            )?
            .execute(params![
                event_seq,
                call.started_at.0,
                call.profile,
                call.provider,
                call.model,
                call.usage.input,
                call.usage.output,
                call.usage.cached,
                call.cost_micros,
                call.latency_ms,
                error,
            ])?;
    }
    Ok(())
}

/// A sum that no row can break: counts were once kept as a provider claimed them.
fn sum_of(column: &str) -> String {
    format!("coalesce(sum(min({column}, {TOKENS_PER_CALL_MAX})), 0)")
}

impl Store {
    /// Sums since `since`, largest cost first (days: newest first).
    pub async fn usage_by(&self, group: UsageGroup, since: Millis) -> Result<Vec<UsageSum>, StoreError> {
        let (key, order) = match group {
            UsageGroup::Model => ("model", "8 DESC, 2 DESC"),
            UsageGroup::Provider => ("provider", "8 DESC, 2 DESC"),
            UsageGroup::Day => ("date(started_at / 1000, 'unixepoch')", "1 DESC"),
        };
        let [input, output, cached, latency, cost] =
            ["input_tokens", "output_tokens", "cached_tokens", "latency_ms", "cost_micros"].map(sum_of);
        let sql = format!(
            "SELECT {key}, count(*), count(error), {input}, {output}, {cached}, {latency}, {cost}
             FROM usage WHERE started_at >= ?1 GROUP BY 1 ORDER BY {order}"
        );
        self.read(move |connection| {
            let mut statement = connection.prepare_cached(&sql)?;
            let rows = statement.query_map([since.0], |row| {
                let tokens = TokenUsage { input: row.get(3)?, output: row.get(4)?, cached: row.get(5)? };
                let totals = UsageTotals {
                    calls: row.get(1)?,
                    failed: row.get(2)?,
                    tokens,
                    latency_ms: row.get(6)?,
                    cost_micros: row.get(7)?,
                };
                Ok(UsageSum { group: row.get(0)?, totals })
            })?;
            Ok(rows.collect::<Result<_, _>>()?)
        })
        .await
    }

    /// Keeps calls that belong to no event.
    pub async fn record_usage(&self, calls: Vec<ModelCall>) -> Result<(), StoreError> {
        self.write(move |connection| record(connection, None, &calls)).await
    }

    /// What the calls for one event came to.
    pub async fn usage_of(&self, event: EventId) -> Result<TokenUsage, StoreError> {
        self.read(move |connection| {
            let Some(event) = inbox::find(connection, &event)? else { return Ok(TokenUsage::default()) };
            // No call is older than its event, and the index is by time.
            let [input, output, cached] = ["input_tokens", "output_tokens", "cached_tokens"].map(sum_of);
            let sql = format!(
                "SELECT {input}, {output}, {cached} FROM usage WHERE started_at >= ?1 AND event_seq = ?2"
            );
            Ok(connection.prepare_cached(&sql)?.query_row([event.created_at.0, event.seq], |row| {
                Ok(TokenUsage { input: row.get(0)?, output: row.get(1)?, cached: row.get(2)? })
            })?)
        })
        .await
    }

    /// Tokens spent since `since`; what the daily budget looks at.
    pub async fn tokens_since(&self, since: Millis) -> Result<u64, StoreError> {
        self.read(move |connection| {
            let [input, output] = ["input_tokens", "output_tokens"].map(sum_of);
            Ok(connection
                .prepare_cached(&format!("SELECT {input} + {output} FROM usage WHERE started_at >= ?1"))?
                .query_row([since.0], |row| row.get(0))?)
        })
        .await
    }
}
