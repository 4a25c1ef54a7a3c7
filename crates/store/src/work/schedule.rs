//! Schedules: jobs, and one record for each of their slots; a fire and its event are one transaction.

use crate::engine::row::readable;
use crate::engine::savepoint::apart;
use crate::{
    Store, StoreError,
    flow::{inbox, outbox},
};
use cortex_types::{CatchUp, Millis, NewEvent, NewReply, SlotOutcome, SlotRecord, TopicRef};
use fail::fail_point;
use rusqlite::{Connection, OptionalExtension, Row, params};

/// Transitions of schedules.
pub struct Schedules<'a>(pub(crate) &'a Store);

/// When a job fires.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Timing {
    Cron(String),
    Once(Millis),
}

/// A job before it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewJob {
    pub description: String,
    pub action: String,
    pub timing: Timing,
    pub timezone: String,
    pub catch_up: CatchUp,
    pub target: TopicRef,
    pub created_by: String,
    pub next_run_at: Option<Millis>,
}

/// A job as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScheduledJob {
    pub id: i64,
    pub description: String,
    pub action: String,
    pub timing: Timing,
    pub timezone: String,
    pub catch_up: CatchUp,
    pub target: TopicRef,
    pub created_by: String,
    pub enabled: bool,
    pub last_run_at: Option<Millis>,
    pub next_run_at: Option<Millis>,
    /// Every slot up to here has its record.
    pub decided_until: Millis,
    pub created_at: Millis,
    /// Whether the event of an earlier slot is still on its way.
    pub is_running: bool,
}

/// The jobs that a tick looks at.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DueJobs {
    pub jobs: Vec<ScheduledJob>,
    /// Those that are damaged on disk.
    pub unreadable: Vec<UnreadableJob>,
}

/// A job whose row is damaged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnreadableJob {
    pub id: i64,
    /// Where its words go, as far as that can be read.
    pub target: Option<TopicRef>,
    pub reason: String,
}

impl DueJobs {
    pub fn len(&self) -> usize {
        self.jobs.len() + self.unreadable.len()
    }

    pub fn is_empty(&self) -> bool {
        self.jobs.is_empty() && self.unreadable.is_empty()
    }
}

/// What a person changes about a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobChange {
    Pause,
    Resume { next_run_at: Option<Millis> },
    Replace(Box<NewJob>),
    Delete,
}

impl Schedules<'_> {
    pub async fn add(&self, job: NewJob, now: Millis) -> Result<i64, StoreError> {
        self.0.write(move |connection| add(connection, &job, now)).await
    }

    /// Enabled jobs whose next fire has come.
    pub async fn due(&self, now: Millis, limit: u32) -> Result<DueJobs, StoreError> {
        self.0.read(move |connection| due(connection, now, limit)).await
    }

    pub async fn list(&self) -> Result<Vec<ScheduledJob>, StoreError> {
        self.0
            .read(|connection| {
                let sql = format!("{SELECT} WHERE deleted_at IS NULL ORDER BY id LIMIT 1000");
                let mut statement = connection.prepare_cached(&sql)?;
                let rows = statement.query_map([], |row| Ok(read(row)))?;
                readable("schedule", rows.map(|row| row?))
            })
            .await
    }

    pub async fn find(&self, id: i64) -> Result<Option<ScheduledJob>, StoreError> {
        self.0.read(move |connection| find(connection, id)).await
    }

    /// Records what became of slots and, for a fire, accepts its event, all at once. A slot that has its record
    /// already, or a job that is gone, changes nothing: the answer is then false.
    pub async fn decide(
        &self,
        job: i64,
        records: Vec<SlotRecord>,
        event: Option<NewEvent>,
        next_run_at: Option<Millis>,
        now: Millis,
    ) -> Result<bool, StoreError> {
        self.0
            .write(move |connection| decide(connection, job, &records, event.as_ref(), next_run_at, now))
            .await
    }

    /// Stops a job that nobody can read any more, and tells its topic if that is known, at once.
    pub async fn set_aside(&self, job: i64, notice: Option<NewReply>, now: Millis) -> Result<(), StoreError> {
        self.0
            .write(move |connection| {
                if !apply(connection, job, &JobChange::Pause, now)? {
                    return Ok(());
                }
                let Some(notice) = notice else { return Ok(()) };
                if let Err(error) = apart(connection, || outbox::queue_unasked(connection, &notice, now))? {
                    tracing::error!(job, %error, "Nobody could be told that a schedule is paused");
                }
                Ok(())
            })
            .await
    }

    /// False when there is no such job.
    pub async fn change(&self, id: i64, change: JobChange, now: Millis) -> Result<bool, StoreError> {
        self.0.write(move |connection| apply(connection, id, &change, now)).await
    }

    /// The newest records of a job.
    pub async fn records(&self, job: i64, limit: u32) -> Result<Vec<SlotRecord>, StoreError> {
        self.0
            .read(move |connection| {
                let mut statement = connection.prepare_cached(
                    "SELECT first_slot_at, slot_at, slots, outcome FROM schedule_slots WHERE job_id = ?1
                     ORDER BY slot_at DESC LIMIT ?2",
                )?;
                let rows = statement.query_map(params![job, limit], |row| {
                    Ok((Millis(row.get(0)?), Millis(row.get(1)?), row.get(2)?, row.get::<_, String>(3)?))
                })?;
                rows.map(|row| {
                    let (from, to, count, word) = row?;
                    let outcome =
                        word.parse().map_err(|error| StoreError::Damaged(format!("job {job}: {error}")))?;
                    Ok(SlotRecord { outcome, from, to, count })
                })
                .collect()
            })
            .await
    }
}

const SELECT: &str = "SELECT id, description, action, cron, run_at, timezone, catch_up, target_source, \
    target_topic_key, created_by_user_id, enabled, last_run_at, next_run_at, decided_until, created_at, \
    coalesce((SELECT i.status IN ('pending', 'processing', 'waiting') \
            FROM schedule_slots s JOIN inbox_messages i ON i.seq = s.event_seq \
            WHERE s.job_id = scheduler_jobs.id AND s.event_seq IS NOT NULL ORDER BY s.slot_at DESC LIMIT 1), 0) \
    FROM scheduler_jobs";

fn read(row: &Row<'_>) -> Result<ScheduledJob, StoreError> {
    let cron: String = row.get(3)?;
    let catch_up: String = row.get(6)?;
    Ok(ScheduledJob {
        id: row.get(0)?,
        description: row.get(1)?,
        action: row.get(2)?,
        timing: match row.get::<_, Option<i64>>(4)? {
            Some(at) => Timing::Once(Millis(at)),
            None => Timing::Cron(cron),
        },
        timezone: row.get(5)?,
        catch_up: if catch_up == "skip" { CatchUp::Skip } else { CatchUp::Once },
        target: TopicRef { source: row.get(7)?, topic_key: row.get(8)? },
        created_by: row.get::<_, Option<String>>(9)?.unwrap_or_default(),
        enabled: row.get(10)?,
        last_run_at: row.get::<_, Option<i64>>(11)?.map(Millis),
        next_run_at: row.get::<_, Option<i64>>(12)?.map(Millis),
        decided_until: Millis(row.get(13)?),
        created_at: Millis(row.get(14)?),
        is_running: row.get(15)?,
    })
}

/// A time that cannot be read would never come, so it is now: then the job is set aside.
fn due(connection: &Connection, now: Millis, limit: u32) -> Result<DueJobs, StoreError> {
    let sql = format!(
        "{SELECT} WHERE enabled = 1 AND (next_run_at <= ?1 OR next_run_at >= '') AND deleted_at IS NULL
         ORDER BY next_run_at LIMIT ?2"
    );
    let mut statement = connection.prepare_cached(&sql)?;
    let mut rows = statement.query(params![now.0, limit])?;
    let mut due = DueJobs::default();
    while let Some(row) = rows.next()? {
        match read(row) {
            Ok(job) => due.jobs.push(job),
            Err(StoreError::Damaged(reason)) => {
                let (source, topic_key) = (row.get(7).ok(), row.get(8).ok());
                let target = source.zip(topic_key).map(|(source, topic_key)| TopicRef { source, topic_key });
                due.unreadable.push(UnreadableJob { id: row.get(0)?, target, reason });
            }
            Err(other) => return Err(other),
        }
    }
    Ok(due)
}

fn find(connection: &Connection, id: i64) -> Result<Option<ScheduledJob>, StoreError> {
    let sql = format!("{SELECT} WHERE id = ?1 AND deleted_at IS NULL");
    connection.prepare_cached(&sql)?.query_row([id], |row| Ok(read(row))).optional()?.transpose()
}

fn timing_columns(timing: &Timing) -> (&str, Option<i64>) {
    match timing {
        Timing::Cron(cron) => (cron, None),
        Timing::Once(at) => ("", Some(at.0)),
    }
}

fn catch_up_word(catch_up: CatchUp) -> &'static str {
    match catch_up {
        CatchUp::Once => "once",
        CatchUp::Skip => "skip",
    }
}

fn add(connection: &Connection, job: &NewJob, now: Millis) -> Result<i64, StoreError> {
    let (cron, run_at) = timing_columns(&job.timing);
    connection
        .prepare_cached(
            "INSERT INTO scheduler_jobs(description, cron, action, target_source, target_topic_key, next_run_at,
               created_by_user_id, created_at, updated_at, run_at, timezone, catch_up, decided_until)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?8, ?9, ?10, ?11, ?8)",
        )?
        .execute(params![
            job.description,
            cron,
            job.action,
            job.target.source,
            job.target.topic_key,
            job.next_run_at.map(|at| at.0),
            job.created_by,
            now.0,
            run_at,
            job.timezone,
            catch_up_word(job.catch_up),
        ])?;
    Ok(connection.last_insert_rowid())
}

fn decide(
    connection: &Connection,
    job: i64,
    records: &[SlotRecord],
    event: Option<&NewEvent>,
    next_run_at: Option<Millis>,
    now: Millis,
) -> Result<bool, StoreError> {
    let decided_until: Option<i64> = connection
        .prepare_cached("SELECT decided_until FROM scheduler_jobs WHERE id = ?1 AND deleted_at IS NULL")?
        .query_row([job], |row| row.get(0))
        .optional()?;
    let Some(decided_until) = decided_until else { return Ok(false) };
    if records.iter().any(|record| record.from.0 <= decided_until) {
        return Ok(false);
    }
    if let Some(event) = event {
        inbox::accept(connection, event, now)?;
    }
    // A duplicate has no row of its own id: then an earlier decision of this slot already made the event.
    let event_seq = event.map(|event| inbox::seq_of(connection, &event.id)).transpose()?.flatten();
    for record in records {
        let fires = matches!(record.outcome, SlotOutcome::Fired | SlotOutcome::CaughtUp);
        connection
            .prepare_cached(
                "INSERT INTO schedule_slots(job_id, slot_at, first_slot_at, slots, outcome, event_seq, decided_at)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
            )?
            .execute(params![
                job,
                record.to.0,
                record.from.0,
                record.count,
                record.outcome.as_str(),
                event_seq.filter(|_| fires),
                now.0,
            ])?;
    }
    let until = records.iter().map(|record| record.to.0).max().unwrap_or(decided_until);
    connection
        .prepare_cached(
            "UPDATE scheduler_jobs SET decided_until = max(decided_until, ?2), next_run_at = ?3,
               last_run_at = coalesce(?4, last_run_at), updated_at = ?5 WHERE id = ?1",
        )?
        .execute(params![job, until, next_run_at.map(|at| at.0), event.map(|_| now.0), now.0])?;
    fail_point!("schedule.decide.before_commit");
    Ok(true)
}

fn apply(connection: &Connection, id: i64, change: &JobChange, now: Millis) -> Result<bool, StoreError> {
    let changed = match change {
        JobChange::Pause => connection
            .prepare_cached("UPDATE scheduler_jobs SET enabled = 0, updated_at = ?2 WHERE id = ?1 AND deleted_at IS NULL")?
            .execute([id, now.0])?,
        // A pause is no downtime: slots in it were not missed, so the watermark moves to now.
        JobChange::Resume { next_run_at } => connection
            .prepare_cached(
                "UPDATE scheduler_jobs SET enabled = 1, next_run_at = ?3, decided_until = max(decided_until, ?2),
                   updated_at = ?2 WHERE id = ?1 AND deleted_at IS NULL",
            )?
            .execute(params![id, now.0, next_run_at.map(|at| at.0)])?,
        JobChange::Replace(job) => {
            let (cron, run_at) = timing_columns(&job.timing);
            connection
                .prepare_cached(
                    "UPDATE scheduler_jobs SET description = ?2, cron = ?3, run_at = ?4, action = ?5, timezone = ?6,
                       catch_up = ?7, next_run_at = ?8, decided_until = max(decided_until, ?9), updated_at = ?9
                     WHERE id = ?1 AND deleted_at IS NULL",
                )?
                .execute(params![
                    id,
                    job.description,
                    cron,
                    run_at,
                    job.action,
                    job.timezone,
                    catch_up_word(job.catch_up),
                    job.next_run_at.map(|at| at.0),
                    now.0,
                ])?
        }
        JobChange::Delete => connection
            .prepare_cached("UPDATE scheduler_jobs SET enabled = 0, deleted_at = ?2, updated_at = ?2 WHERE id = ?1 AND deleted_at IS NULL")?
            .execute([id, now.0])?,
    };
    Ok(changed == 1)
}
