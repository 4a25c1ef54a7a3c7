//! The scheduler: at each tick every due slot gets its record, and a due run becomes an event on the normal path.

use crate::mint;
use crate::runtime::Parts;
use cortex_brain::{Cron, DueRun, JobView, Overlap, Schedule, decide_slots, next_fires};
use cortex_store::{ScheduledJob, StoreError, Timing};
use cortex_types::{ChannelMode, Millis, NewEvent, Priority, SlotOutcome, SlotRecord};
use jiff::tz::TimeZone;
use metrics::counter;
use serde::Serialize;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// Most jobs one tick looks at; the rest follow at once.
const JOBS_PER_TICK: u32 = 500;

/// Ticks until `stop`.
pub(crate) async fn run(parts: Arc<Parts>, stop: CancellationToken) {
    loop {
        if let Err(error) = tick(&parts).await {
            tracing::warn!(%error, "Schedules cannot be looked at now; trying again");
        }
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(parts.config.scheduler_tick) => {}
        }
    }
}

/// One look at the clock.
pub(crate) async fn tick(parts: &Parts) -> Result<(), StoreError> {
    let now = parts.clock.now();
    for job in parts.store.schedules().due(now, JOBS_PER_TICK).await? {
        match plan(&job) {
            Ok((schedule, zone)) => decide(parts, &job, &schedule, &zone, now).await?,
            Err(reason) => {
                tracing::error!(job = job.id, reason, "A stored schedule cannot be read; it does not fire")
            }
        }
    }
    Ok(())
}

async fn decide(
    parts: &Parts,
    job: &ScheduledJob,
    schedule: &Schedule,
    zone: &TimeZone,
    now: Millis,
) -> Result<(), StoreError> {
    let id = job.id.to_string();
    let view = JobView {
        id: &id,
        schedule,
        zone,
        catch_up: job.catch_up,
        overlap: Overlap::Skip,
        is_paused: !job.enabled,
        is_running: job.is_running,
        decided_until: job.decided_until,
    };
    let tick = decide_slots(&view, now);
    let is_off = is_off(parts, job);
    let event = tick.run.as_ref().filter(|_| !is_off).map(|run| event_of(job, run, now));
    let fired = event.is_some();
    let records = tick.records.into_iter().map(|record| if is_off { skipped(record) } else { record });
    let next = next_fires(schedule, zone, tick.decided_until.max(now), 1).first().copied();
    let decided = parts.store.schedules().decide(job.id, records.collect(), event, next, now).await?;
    if decided && fired {
        counter!("cortex_schedule_fires_total").increment(1);
        parts.arrived.notify_one();
    }
    Ok(())
}

/// Whether events of this job would come over a channel that is off: then there are none (D18).
pub(crate) fn is_off(parts: &Parts, job: &ScheduledJob) -> bool {
    parts.channels.borrow().mode_of_event(CRON, &job.target.source) == ChannelMode::Off
}

fn skipped(record: SlotRecord) -> SlotRecord {
    match record.outcome {
        SlotOutcome::Fired | SlotOutcome::CaughtUp => SlotRecord { outcome: SlotOutcome::Skipped, ..record },
        SlotOutcome::Skipped | SlotOutcome::Missed => record,
    }
}

/// The channel of events that schedules make.
const CRON: &str = "cron";

/// What the event of a due run says of itself.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct DueMetadata {
    channel: &'static str,
    job_id: i64,
    slot: String,
    missed: u64,
}

/// The event of a due run: source and topic of the job's target, its creator's user (D18).
pub(crate) fn event_of(job: &ScheduledJob, run: &DueRun, now: Millis) -> NewEvent {
    let missed = match run.missed {
        0 => String::new(),
        count => format!("\n({count} earlier runs were missed while the server was down.)"),
    };
    let metadata =
        DueMetadata { channel: CRON, job_id: job.id, slot: run.slot.to_rfc3339(), missed: run.missed };
    NewEvent {
        id: mint::event_id(now),
        source: job.target.source.clone(),
        external_message_id: run.event_id.clone(),
        idempotency_key: run.event_id.clone(),
        topic_key: job.target.topic_key.clone(),
        user_id: job.created_by.clone(),
        text: format!("{}{missed}", job.action),
        occurred_at: run.slot,
        metadata_json: serde_json::to_string(&metadata).ok(),
        priority: Priority::Normal,
        channel: Some(CRON.to_owned()),
    }
}

/// The stored text as a schedule and a zone.
pub(crate) fn plan(job: &ScheduledJob) -> Result<(Schedule, TimeZone), String> {
    let zone = TimeZone::get(&job.timezone).map_err(|error| error.to_string())?;
    let schedule = match &job.timing {
        Timing::Cron(text) => Schedule::Recurring(text.parse::<Cron>().map_err(|error| error.to_string())?),
        Timing::Once(at) => Schedule::Once(*at),
    };
    Ok((schedule, zone))
}
