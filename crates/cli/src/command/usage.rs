//! `cortex usage`.

use crate::context::Context;
use crate::exit::{Exit, Failure};
use crate::{connect, duration};
use clap::ValueEnum;
use cortex_api::{UsageBy, UsageCounts, UsageQuery, WireTime};
use cortex_types::{Clock, Millis, SystemClock};

/// Show what the models were asked and what it cost
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only since then: a span such as 24h or 7d, a day such as 2026-02-15, or an RFC 3339 time
    #[arg(long, value_parser = parse_since)]
    since: Option<Millis>,
    /// What the rows are
    #[arg(long, value_enum, default_value_t = By::Model)]
    by: By,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum By {
    Model,
    Day,
    Provider,
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, Failure> {
    let by = match args.by {
        By::Model => UsageBy::Model,
        By::Day => UsageBy::Day,
        By::Provider => UsageBy::Provider,
    };
    let client = connect::client(context)?;
    let query = UsageQuery { since: args.since.map(WireTime), by: Some(by) };
    let report = context.client_runtime()?.block_on(client.usage(&query))?;
    if context.terminal.json {
        context.terminal.print_json(&report)?;
        return Ok(Exit::Ok);
    }
    let mut rows: Vec<Vec<String>> = report.rows.iter().map(|row| cells(&row.key, &row.counts)).collect();
    rows.push(cells("total", &report.total));
    context.terminal.print_table(
        &[by.as_str(), "calls", "failed", "input", "cached", "output", "cost", "mean time"],
        &rows,
    )?;
    Ok(Exit::Ok)
}

fn cells(name: &str, counts: &UsageCounts) -> Vec<String> {
    vec![
        name.to_owned(),
        counts.calls.to_string(),
        counts.failed.to_string(),
        counts.input_tokens.to_string(),
        counts.cached_tokens.to_string(),
        counts.output_tokens.to_string(),
        format!("${}.{:04}", counts.cost_micros / 1_000_000, counts.cost_micros % 1_000_000 / 100),
        duration::shown(counts.latency_ms / counts.calls.max(1)),
    ]
}

fn parse_since(text: &str) -> Result<Millis, String> {
    if let Ok(timestamp) = text.parse::<jiff::Timestamp>() {
        return Ok(Millis(timestamp.as_millisecond()));
    }
    if let Ok(day) = text.parse::<jiff::civil::Date>() {
        let midnight = day.to_zoned(jiff::tz::TimeZone::UTC).map_err(|error| error.to_string())?;
        return Ok(Millis(midnight.timestamp().as_millisecond()));
    }
    let span = duration::parse(text).map_err(|_| format!("{text:?} is not a span, a day or a time"))?;
    let back = i64::try_from(span.as_millis()).unwrap_or(i64::MAX);
    Ok(Millis(SystemClock::start().now().0.saturating_sub(back)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_beginning_is_a_time_a_day_or_a_span() {
        assert_eq!(parse_since("2026-02-15T20:30:00Z"), Ok(Millis(1_771_187_400_000)));
        assert_eq!(parse_since("2026-02-15"), Ok(Millis(1_771_113_600_000)));
        assert!(parse_since("7d").is_ok_and(|since| since < SystemClock::start().now()));
        assert!(parse_since("soon").is_err());
    }

    #[test]
    fn cost_is_shown_in_dollars() {
        let counts =
            UsageCounts { calls: 2, cost_micros: 1_234_567, latency_ms: 3_000, ..UsageCounts::default() };
        assert_eq!(cells("m", &counts), ["m", "2", "0", "0", "0", "0", "$1.2345", "1.5 s"]);
    }
}
