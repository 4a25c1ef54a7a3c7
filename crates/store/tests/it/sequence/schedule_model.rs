//! What schedules should do, said as simply as possible: jobs for every full hour, and one record a slot (D15).

use super::inbox_model::InboxModel;
use cortex_store::ScheduledJob;
use cortex_types::{EventId, InboxStatus, Millis, NewEvent, SlotOutcome, SlotRecord};

/// Time between two slots of a job.
pub(super) const PERIOD: i64 = 3_600_000;

#[derive(Clone)]
pub(super) struct ModelJob {
    pub(super) id: i64,
    pub(super) topic: usize,
    pub(super) is_enabled: bool,
    pub(super) is_deleted: bool,
    pub(super) decided_until: Millis,
    pub(super) next_run_at: Millis,
    pub(super) records: Vec<SlotRecord>,
    /// The newest event of it.
    event: Option<EventId>,
}

#[derive(Clone, Default)]
pub(super) struct ScheduleModel {
    pub(super) jobs: Vec<ModelJob>,
}

impl ModelJob {
    pub(super) fn new(id: i64, topic: usize, now: Millis) -> Self {
        Self {
            id,
            topic,
            is_enabled: true,
            is_deleted: false,
            decided_until: now,
            next_run_at: slot_after(now),
            records: Vec::new(),
            event: None,
        }
    }

    /// What a tick finds that looks at the next `slots` slots; the newest of them fires or is skipped.
    pub(super) fn due(&self, slots: u32, fires: bool) -> Vec<SlotRecord> {
        let first = slot_after(self.decided_until);
        let newest = Millis(first.0 + i64::from(slots - 1) * PERIOD);
        let outcome = if fires { SlotOutcome::Fired } else { SlotOutcome::Skipped };
        let newest_record = SlotRecord { outcome, from: newest, to: newest, count: 1 };
        let missed = SlotRecord {
            outcome: SlotOutcome::Missed,
            from: first,
            to: Millis(newest.0 - PERIOD),
            count: u64::from(slots - 1),
        };
        if slots > 1 { vec![missed, newest_record] } else { vec![newest_record] }
    }

    /// A slot gets its record once; what comes later changes nothing.
    pub(super) fn decide(
        &mut self,
        records: &[SlotRecord],
        event: Option<&NewEvent>,
        next_run_at: Millis,
        inbox: &mut InboxModel,
    ) -> bool {
        if self.is_deleted || records.iter().any(|record| record.from <= self.decided_until) {
            return false;
        }
        if let Some(event) = event {
            inbox.accept(event);
            self.event = Some(event.id.clone());
        }
        self.records.extend(records);
        self.decided_until = records.last().map_or(self.decided_until, |record| record.to);
        self.next_run_at = next_run_at;
        true
    }

    pub(super) fn is_running(&self, inbox: &InboxModel) -> bool {
        let event = self.event.as_ref().and_then(|id| inbox.events.iter().find(|event| event.new.id == *id));
        event.is_some_and(|event| {
            matches!(event.status, InboxStatus::Pending | InboxStatus::Processing | InboxStatus::Waiting)
        })
    }

    pub(super) fn is_like(&self, row: &ScheduledJob, inbox: &InboxModel) -> bool {
        (self.is_enabled, self.decided_until, Some(self.next_run_at), self.is_running(inbox))
            == (row.enabled, row.decided_until, row.next_run_at, row.is_running)
    }
}

pub(super) fn slot_after(after: Millis) -> Millis {
    Millis((after.0.div_euclid(PERIOD) + 1) * PERIOD)
}
