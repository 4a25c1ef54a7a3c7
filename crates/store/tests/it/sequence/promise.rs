//! What the store's answers promised, checked on its rows without the models: I1, I2, I3, I6, I8, I9 and I10.

use cortex_types::{
    Approval, ApprovalId, ApprovalStatus, Delivery, Event, EventId, InboxStatus, LeaseToken, Millis,
    OutboxId, SlotRecord, TopicRef,
};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Default)]
pub(super) struct Promises {
    accepted: BTreeSet<EventId>,
    finished: BTreeSet<EventId>,
    leases: BTreeMap<OutboxId, Granted>,
    decided: BTreeSet<ApprovalId>,
    /// Slots that have their record, by job.
    slots: BTreeSet<(i64, Millis)>,
}

/// The leases of one message.
#[derive(Default)]
struct Granted {
    tokens: Vec<LeaseToken>,
    live_until: Option<Millis>,
    claims: u32,
}

impl Promises {
    pub(super) fn accepted(&mut self, id: &EventId) {
        self.accepted.insert(id.clone());
    }

    /// I2: one run to completion.
    pub(super) fn answered(&mut self, id: &EventId) -> Result<(), String> {
        if self.finished.insert(id.clone()) { Ok(()) } else { Err(format!("I2: {id} was answered twice")) }
    }

    /// I6: one decision a question.
    pub(super) fn decided(&mut self, id: &ApprovalId) -> Result<(), String> {
        if self.decided.insert(id.clone()) { Ok(()) } else { Err(format!("I6: {id} was decided twice")) }
    }

    /// I6: a question that was decided stays so; an event waits only while one of its questions is open, and does not end
    /// before all are answered.
    pub(super) fn check_waiting(&self, rows: &[Event], approvals: &[Approval]) -> Result<(), String> {
        let is_open_again = |approval: &&Approval| {
            approval.status == ApprovalStatus::Pending && self.decided.contains(&approval.id)
        };
        if let Some(approval) = approvals.iter().find(is_open_again) {
            return Err(format!("I6: {} is open again", approval.id));
        }
        let open: BTreeSet<&EventId> = approvals
            .iter()
            .filter(|approval| approval.status == ApprovalStatus::Pending)
            .map(|approval| &approval.event)
            .collect();
        let wrong = rows.iter().find(|row| match row.status {
            InboxStatus::Waiting => !open.contains(&row.id),
            InboxStatus::Done => open.contains(&row.id),
            InboxStatus::Pending | InboxStatus::Processing | InboxStatus::Failed => false,
        });
        match wrong {
            Some(row) => Err(format!("I6: {} is {} with the wrong questions open", row.id, row.status)),
            None => Ok(()),
        }
    }

    /// I10: one record a slot.
    pub(super) fn slots_decided(
        &mut self,
        job: i64,
        records: &[SlotRecord],
        period: i64,
    ) -> Result<(), String> {
        for record in records {
            for number in 0..i64::try_from(record.count).unwrap_or(0) {
                let slot = Millis(record.from.0 + number * period);
                if !self.slots.insert((job, slot)) {
                    return Err(format!("I10: slot {} of job {job} was decided twice", slot.0));
                }
            }
        }
        Ok(())
    }

    /// I3: a claimed event is the first of its topic, and alone; `rows` are as they were before the claim.
    pub(super) fn claimed(&self, id: &EventId, rows: &[Event]) -> Result<(), String> {
        let claimed = rows.iter().find(|row| row.id == *id).ok_or(format!("I3: {id} was never there"))?;
        let rival = rows.iter().filter(|row| row.topic == claimed.topic && row.id != *id).find(|row| {
            let is_earlier = (row.priority, row.seq) < (claimed.priority, claimed.seq);
            row.status == InboxStatus::Processing || row.status == InboxStatus::Pending && is_earlier
        });
        match rival {
            Some(rival) => Err(format!("I3: {id} was claimed before or beside {}", rival.id)),
            None => Ok(()),
        }
    }

    /// I8: one live lease a message. I9: no more claims than allowed.
    pub(super) fn leased(
        &mut self,
        delivery: &Delivery,
        attempts_max: u32,
        now: Millis,
    ) -> Result<(), String> {
        let granted = self.leases.entry(delivery.id.clone()).or_default();
        if granted.live_until.is_some_and(|until| until > now) {
            return Err(format!("I8: {} was handed out under a live lease", delivery.id));
        }
        if granted.tokens.contains(&delivery.lease) {
            return Err(format!("I8: {} was handed out under an old token", delivery.id));
        }
        granted.claims += 1;
        if granted.claims > attempts_max {
            return Err(format!("I9: {} was handed out {} times", delivery.id, granted.claims));
        }
        granted.tokens.push(delivery.lease.clone());
        granted.live_until = Some(delivery.lease_expires_at);
        Ok(())
    }

    pub(super) fn lease_ended(&mut self, id: &OutboxId) {
        self.leases.entry(id.clone()).or_default().live_until = None;
    }

    /// A person's retry starts the count of claims anew.
    pub(super) fn requeued(&mut self, id: &OutboxId) {
        let granted = self.leases.entry(id.clone()).or_default();
        (granted.claims, granted.live_until) = (0, None);
    }

    /// After a start leases were shortened to the horizon, and answers may have been lost on their way.
    pub(super) fn restarted(&mut self, latest: Millis) {
        for granted in self.leases.values_mut() {
            granted.live_until = granted.live_until.map(|until| until.min(latest));
        }
    }

    pub(super) fn tokens_of(&self, id: &OutboxId) -> &[LeaseToken] {
        self.leases.get(id).map_or(&[], |granted| &granted.tokens)
    }

    pub(super) fn any_token_but_of(&self, id: &OutboxId) -> Option<&LeaseToken> {
        self.leases.iter().filter(|(other, _)| *other != id).find_map(|(_, granted)| granted.tokens.last())
    }

    /// I1: nothing accepted is absent. I2: one row an external id. I3: one in flight a topic.
    pub(super) fn check(&self, rows: &[Event]) -> Result<(), String> {
        let ids: BTreeSet<&EventId> = rows.iter().map(|row| &row.id).collect();
        if let Some(lost) = self.accepted.iter().find(|id| !ids.contains(id)) {
            return Err(format!("I1: {lost} was accepted and is gone"));
        }
        let externals: BTreeSet<(&str, &str)> =
            rows.iter().map(|row| (row.topic.source.as_str(), row.external_message_id.as_str())).collect();
        if externals.len() != rows.len() {
            return Err(format!("I2: {} rows for {} external ids", rows.len(), externals.len()));
        }
        let mut running: BTreeSet<&TopicRef> = BTreeSet::new();
        let second = rows
            .iter()
            .filter(|row| row.status == InboxStatus::Processing)
            .find(|row| !running.insert(&row.topic));
        match second {
            Some(row) => Err(format!("I3: {} runs beside another of its topic", row.id)),
            None => Ok(()),
        }
    }
}
