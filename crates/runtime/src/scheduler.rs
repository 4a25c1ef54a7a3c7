//! The scheduler: at each tick every due slot gets its record, and a due run becomes an event on the normal path.

use crate::mint;
use crate::runtime::Parts;
use crate::timer::wait_for;
use cortex_brain::{Cron, DueRun, JobView, Overlap, Schedule, decide_slots, next_fires};
use cortex_store::{ScheduledJob, Store, StoreError, Timing, UnreadableJob};
use cortex_types::{
    ChannelSettings, Millis, NewEvent, NewReply, Priority, Relationship, SlotOutcome, SlotRecord, Standing,
};
use jiff::tz::TimeZone;
use metrics::counter;
use serde::Serialize;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// Most jobs that are read at a time; the rest follow at once.
const JOBS_PER_LOOK: u32 = 500;

/// Ticks until `stop`.
pub(crate) async fn run(parts: Arc<Parts>, stop: CancellationToken) {
    loop {
        if let Err(error) = tick(&parts).await
            && error.is_news()
        {
            tracing::warn!(%error, "Schedules cannot be looked at now; trying again");
        }
        tokio::select! {
            () = stop.cancelled() => return,
            () = wait_for(&*parts.clock, parts.config.scheduler_tick) => {}
        }
    }
}

/// One look at the clock.
pub(crate) async fn tick(parts: &Parts) -> Result<(), StoreError> {
    // A slot is a moment of the wall clock; one that was decided does not come again when that is set back (D90).
    let now = parts.clock.wall();
    let channels = Arc::clone(&parts.channels.borrow());
    loop {
        let due = parts.store.schedules().due(now, JOBS_PER_LOOK).await?;
        let mut is_last = due.len() < JOBS_PER_LOOK as usize;
        for job in due.unreadable {
            set_aside_damaged(&parts.store, job, now).await?;
        }
        for job in due.jobs {
            match look_at(parts, &channels, &job, now).await {
                Ok(()) => {}
                // What is wrong with one job keeps no other from firing.
                Err(error @ (StoreError::Damaged(_) | StoreError::Fault(_))) => {
                    tracing::error!(job = job.id, %error, "A schedule cannot be decided; the next look tries again");
                    is_last = true;
                }
                Err(error) => return Err(error),
            }
        }
        if is_last {
            return Ok(());
        }
    }
}

async fn look_at(
    parts: &Parts,
    channels: &ChannelSettings,
    job: &ScheduledJob,
    now: Millis,
) -> Result<(), StoreError> {
    match plan(job) {
        Ok((schedule, zone)) => {
            if decide(&parts.store, channels, job, &schedule, &zone, now).await? {
                parts.arrived.notify_one();
            }
            Ok(())
        }
        Err(reason) => set_aside(&parts.store, job, &reason, now).await,
    }
}

/// Gives every slot up to now its record before a person changes the job: a slot is judged by the state it passed in.
/// Whether a run became due with it.
pub(crate) async fn settle(
    store: &Store,
    channels: &ChannelSettings,
    job: &ScheduledJob,
    now: Millis,
) -> Result<bool, StoreError> {
    match plan(job) {
        Ok((schedule, zone)) => decide(store, channels, job, &schedule, &zone, now).await,
        // A job that cannot be read has no slots, and its change may be what mends it.
        Err(_) => Ok(false),
    }
}

async fn decide(
    store: &Store,
    channels: &ChannelSettings,
    job: &ScheduledJob,
    schedule: &Schedule,
    zone: &TimeZone,
    now: Millis,
) -> Result<bool, StoreError> {
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
    let is_off = is_off(channels, job);
    let event = tick.run.as_ref().filter(|_| !is_off).map(|run| event_of(job, run, now));
    let is_run = event.is_some();
    let records = tick.records.into_iter().map(|record| if is_off { skipped(record) } else { record });
    let next = next_fires(schedule, zone, tick.decided_until.max(now), 1).first().copied();
    let decided = store.schedules().decide(job.id, records.collect(), event, next, now).await?;
    let fired = decided && is_run;
    if fired {
        counter!("cortex_schedule_fires_total").increment(1);
    }
    Ok(fired)
}

/// A job that cannot be read would never fire again and nobody would know: it is paused, and its topic is told.
async fn set_aside(store: &Store, job: &ScheduledJob, reason: &str, now: Millis) -> Result<(), StoreError> {
    tracing::error!(
        job = job.id,
        reason,
        "A stored schedule cannot be read; it is paused and its topic is told"
    );
    let text = format!(
        "I cannot read schedule {} ({}) any more, so I paused it: {reason}. Change or delete it, then resume it.",
        job.id, job.description
    );
    let notice = NewReply { id: mint::outbox_id(now), topic: job.target.clone(), text, payload_json: None };
    store.schedules().set_aside(job.id, Some(notice), now).await
}

/// The same for a job whose row is damaged on disk: there is nothing left to change.
async fn set_aside_damaged(store: &Store, job: UnreadableJob, now: Millis) -> Result<(), StoreError> {
    let UnreadableJob { id, target, reason } = job;
    tracing::error!(job = id, reason, "A stored schedule is damaged; it is paused and its topic is told");
    let text = format!(
        "I cannot read schedule {id} any more, because it was damaged on disk, so I paused it. \
         Please set it up again."
    );
    let notice = target.map(|topic| NewReply { id: mint::outbox_id(now), topic, text, payload_json: None });
    store.schedules().set_aside(id, notice, now).await
}

/// Whether events of this job would come over a channel that is off: then there are none (D18).
pub(crate) fn is_off(channels: &ChannelSettings, job: &ScheduledJob) -> bool {
    channels.is_off(CRON, &job.target.source)
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
        1 => "\n(1 earlier run was missed.)".to_owned(),
        count => format!("\n({count} earlier runs were missed.)"),
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
        relationship: Some(Relationship::System.as_str().to_owned()),
        standing: Standing::Inside,
        answer: None,
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
