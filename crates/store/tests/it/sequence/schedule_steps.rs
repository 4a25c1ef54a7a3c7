//! The steps of schedules: each asks the store and the model the same, and compares their answers.

use super::operation::{Decide, ScheduleOperation};
use super::schedule_model::{ModelJob, PERIOD, slot_after};
use super::world::{Checked, Models, Seeded, World, same, told};
use cortex_store::{JobChange, NewJob, Timing};
use cortex_testkit::new_event;
use cortex_types::{CatchUp, Millis, NewEvent, SlotRecord};
use futures::future::join_all;
use rusqlite::Connection;
use std::collections::BTreeSet;
use tempfile::TempDir;

/// Ticks that look at the same slots, each with the event it would accept.
type Ticks = (usize, Vec<SlotRecord>, Vec<Option<NewEvent>>, Millis);

impl World {
    pub(super) async fn schedule_step(&mut self, operation: ScheduleOperation) -> Checked {
        match operation {
            ScheduleOperation::Add { topic } => self.add_job(topic).await,
            ScheduleOperation::Decide(decide) => self.decide(&decide).await,
            ScheduleOperation::DecideLate { job } => self.decide_late(job).await,
            ScheduleOperation::Pause { job } => self.change(job, JobChange::Pause).await,
            ScheduleOperation::Resume { job } => {
                let next_run_at = Some(slot_after(self.now));
                self.change(job, JobChange::Resume { next_run_at }).await
            }
            ScheduleOperation::Delete { job } => self.change(job, JobChange::Delete).await,
        }
    }

    async fn add_job(&mut self, topic: usize) -> Checked {
        let job = NewJob {
            description: "stretch".to_owned(),
            action: "stretch".to_owned(),
            timing: Timing::Cron("0 * * * *".to_owned()),
            timezone: "UTC".to_owned(),
            catch_up: CatchUp::Once,
            target: self.topics[topic].clone(),
            created_by: "ada".to_owned(),
            next_run_at: Some(slot_after(self.now)),
        };
        let id = self.store.schedules().add(job, self.now).await.map_err(told)?;
        self.models.schedules.jobs.push(ModelJob::new(id, topic, self.now));
        Ok(())
    }

    async fn decide(&mut self, decide: &Decide) -> Checked {
        let Some((job, records, events, next)) = self.ticks(decide) else { return Ok(()) };
        let id = self.models.schedules.jobs[job].id;
        let schedules = self.store.schedules();
        let ticks = events
            .iter()
            .map(|event| schedules.decide(id, records.clone(), event.clone(), Some(next), self.now));
        let found: Result<Vec<bool>, _> = join_all(ticks).await.into_iter().collect();
        for (decided, event) in found.map_err(told)?.into_iter().zip(events) {
            if decided {
                self.promises.slots_decided(id, &records, PERIOD)?;
                event.iter().for_each(|event| self.promises.accepted(&event.id));
            }
            let Models { inbox, schedules, .. } = &mut self.models;
            let expected = schedules.jobs[job].decide(&records, event.as_ref(), next, inbox);
            same("I10: a decision", &decided, &expected)?;
        }
        if self.seeded == Seeded::SlotForgotten {
            let connection = Connection::open(self.store.path()).unwrap();
            connection
                .execute_batch("DELETE FROM schedule_slots; UPDATE scheduler_jobs SET decided_until = 0")
                .unwrap();
        }
        Ok(())
    }

    pub(super) async fn killed_in_decide(&mut self, decide: &Decide, after: &mut Models) -> TempDir {
        let Some((job, records, events, next)) = self.ticks(decide) else { return self.store.crash_image() };
        let (id, event) = (self.models.schedules.jobs[job].id, events[0].clone());
        let Models { inbox, schedules, .. } = after;
        schedules.jobs[job].decide(&records, event.as_ref(), next, inbox);
        let store = self.store.schedules();
        let decided = store.decide(id, records, event, Some(next), self.now);
        let (_, image) = tokio::join!(decided, async { self.store.crash_image() });
        image
    }

    fn ticks(&self, decide: &Decide) -> Option<Ticks> {
        let place = decide.job.checked_rem(self.models.schedules.jobs.len())?;
        let job = &self.models.schedules.jobs[place];
        let records = job.due(decide.slots, decide.fires);
        let slot = records.last()?.to;
        let event = || NewEvent {
            external_message_id: format!("schedule:{}:{}", job.id, slot.0),
            ..new_event(&self.topics[job.topic], "stretch")
        };
        let events = (0..decide.times).map(|_| decide.fires.then(event)).collect();
        Some((place, records, events, Millis(slot.0 + PERIOD)))
    }

    /// A tick that was held up and comes with slots that have their record.
    async fn decide_late(&mut self, job: usize) -> Checked {
        let Some(place) = job.checked_rem(self.models.schedules.jobs.len()) else { return Ok(()) };
        let job = &self.models.schedules.jobs[place];
        let Some(record) = job.records.last() else { return Ok(()) };
        let event = Some(new_event(&self.topics[job.topic], "late"));
        let decided = self.store.schedules().decide(job.id, vec![*record], event, None, self.now).await;
        same("I10: a late decision", &decided.map_err(told)?, &false)
    }

    async fn change(&mut self, job: usize, change: JobChange) -> Checked {
        let Some(place) = job.checked_rem(self.models.schedules.jobs.len()) else { return Ok(()) };
        let job = &mut self.models.schedules.jobs[place];
        let changed = self.store.schedules().change(job.id, change.clone(), self.now).await.map_err(told)?;
        same("a change of a job", &changed, &!job.is_deleted)?;
        if job.is_deleted {
            return Ok(());
        }
        match change {
            JobChange::Pause => job.is_enabled = false,
            JobChange::Resume { next_run_at } => {
                job.is_enabled = true;
                job.decided_until = job.decided_until.max(self.now);
                job.next_run_at = next_run_at.unwrap();
            }
            JobChange::Delete => (job.is_enabled, job.is_deleted) = (false, true),
            JobChange::Replace(_) => {}
        }
        Ok(())
    }

    /// I10: the records are the model's, each slot has one, and only what is due is found.
    pub(super) async fn schedules_differ(&self, models: &Models) -> Checked<Option<String>> {
        let mut due = BTreeSet::new();
        for job in &models.schedules.jobs {
            let mut records = self.store.schedules().records(job.id, u32::MAX).await.map_err(told)?;
            records.reverse();
            if records != job.records {
                return Ok(Some(format!("I10: job {} has {records:?} instead of {:?}", job.id, job.records)));
            }
            let row = self.store.schedules().find(job.id).await.map_err(told)?;
            match row {
                None if job.is_deleted => {}
                Some(row) if !job.is_deleted && job.is_like(&row, &models.inbox) => {}
                other => return Ok(Some(format!("I10: job {} is {other:?}", job.id))),
            }
            if job.is_enabled && job.next_run_at <= self.now {
                due.insert(job.id);
            }
        }
        let ours: BTreeSet<i64> = models.schedules.jobs.iter().map(|job| job.id).collect();
        let found = self.store.schedules().due(self.now, u32::MAX).await.map_err(told)?;
        let found: BTreeSet<i64> =
            found.jobs.iter().map(|job| job.id).filter(|id| ours.contains(id)).collect();
        Ok((found != due).then(|| format!("I10: {found:?} are due instead of {due:?}")))
    }
}
