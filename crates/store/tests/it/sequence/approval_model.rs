//! What approvals should do, said as simply as possible: questions that are answered once, and grants (D9).

use super::inbox_model::InboxModel;
use super::outbox_model::OutboxModel;
use cortex_store::{AskedApproval, Suspended};
use cortex_types::{
    Approval, ApprovalId, ApprovalStatus, Decision, GrantId, InboxStatus, Millis, NewApproval, NewReply,
    asked_line, is_local,
};

#[derive(Clone)]
pub(super) struct ModelQuestion {
    pub(super) asked: NewApproval,
    /// The place of its event.
    pub(super) event: usize,
    pub(super) status: ApprovalStatus,
    /// Its place in the history of the topic.
    line: usize,
}

#[derive(Clone)]
pub(super) struct ModelGrant {
    pub(super) id: GrantId,
    binding: [u8; 32],
    expires_at: Millis,
    is_revoked: bool,
}

/// What an answer comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answered {
    Decided,
    Already,
    Expired,
    NotYours,
}

#[derive(Clone, Default)]
pub(super) struct ApprovalModel {
    /// In order of asking.
    pub(super) questions: Vec<ModelQuestion>,
    pub(super) grants: Vec<ModelGrant>,
}

fn said(asked: &NewApproval, status: ApprovalStatus) -> String {
    asked_line(&asked.tool_name, &asked.tool_arguments_json, status)
}

/// What else an approval touches.
pub(super) struct Around<'a> {
    pub(super) inbox: &'a mut InboxModel,
    pub(super) outbox: &'a mut OutboxModel,
    pub(super) now: Millis,
}

impl ApprovalModel {
    pub(super) fn suspend(
        &mut self,
        event: usize,
        asked: Vec<AskedApproval>,
        around: Around<'_>,
    ) -> Suspended {
        let room = self.room(event, around.inbox);
        if asked.len() > room {
            return Suspended::TooMany { room };
        }
        around.inbox.wait(event, u32::try_from(asked.len()).unwrap());
        for AskedApproval { approval, prompt } in asked {
            let origin = around.inbox.events[event].origin();
            around.outbox.queue(vec![prompt], &origin, around.now);
            let line = around.inbox.note_question(event, said(&approval, ApprovalStatus::Pending));
            self.questions.push(ModelQuestion {
                asked: approval,
                event,
                status: ApprovalStatus::Pending,
                line,
            });
        }
        Suspended::Waits
    }

    /// A program without a key has four open questions, and all of them together sixteen.
    fn room(&self, event: usize, inbox: &InboxModel) -> usize {
        let source = |event: usize| inbox.events[event].new.source.as_str();
        if !is_local(source(event)) {
            return usize::MAX;
        }
        let open = self.questions.iter().filter(|question| question.status == ApprovalStatus::Pending);
        let strangers: Vec<&str> =
            open.map(|question| source(question.event)).filter(|source| is_local(source)).collect();
        let own = strangers.iter().filter(|stranger| **stranger == source(event)).count();
        16_usize.saturating_sub(strangers.len()).min(4_usize.saturating_sub(own))
    }

    pub(super) fn resolve(
        &mut self,
        question: usize,
        decision: Decision,
        may_answer: bool,
        line: NewReply,
        around: Around<'_>,
    ) -> Answered {
        let (status, expires_at) =
            (self.questions[question].status, self.questions[question].asked.expires_at);
        if !may_answer {
            return Answered::NotYours;
        }
        let (now, inbox, outbox) = (around.now, around.inbox, around.outbox);
        let answered = if status != ApprovalStatus::Pending {
            Answered::Already
        } else if expires_at <= now
            || inbox.events[self.questions[question].event].status == InboxStatus::Failed
        {
            self.close(question, Decision::Expired, inbox);
            Answered::Expired
        } else {
            self.close(question, decision, inbox);
            Answered::Decided
        };
        let origin = inbox.events[self.questions[question].event].origin();
        outbox.queue(vec![line], &origin, now);
        answered
    }

    /// The questions that nobody answered in time, in the order in which they ended.
    pub(super) fn expire(&mut self, inbox: &mut InboxModel, now: Millis) -> Vec<usize> {
        let mut due = self.open_until(now);
        due.sort_by_key(|question| (self.questions[*question].asked.expires_at, *question));
        for question in &due {
            self.close(*question, Decision::Expired, inbox);
        }
        due
    }

    /// What was approved wakes the event, and so does the last answer; a turn that runs looks by itself before it rests.
    fn close(&mut self, question: usize, decision: Decision, inbox: &mut InboxModel) {
        self.questions[question].status = decision.into();
        let ModelQuestion { asked, event, status, line } = &self.questions[question];
        let event = *event;
        inbox.restate(event, *line, said(asked, *status));
        inbox.events[event].steps += 1;
        inbox.events[event].decided_since_claim = true;
        if decision == Decision::Approved || !self.has_open(event) {
            inbox.wake(event);
        }
    }

    /// Whether a question of the event at this place is open.
    pub(super) fn has_open(&self, event: usize) -> bool {
        let is_open = |question: &ModelQuestion| question.status == ApprovalStatus::Pending;
        self.questions.iter().any(|question| question.event == event && is_open(question))
    }

    pub(super) fn grant(&mut self, id: GrantId, question: usize, expires_at: Millis) {
        let binding = self.questions[question].asked.binding;
        self.grants.push(ModelGrant { id, binding, expires_at, is_revoked: false });
    }

    /// False when it was revoked before.
    pub(super) fn revoke(&mut self, grant: usize) -> bool {
        !std::mem::replace(&mut self.grants[grant].is_revoked, true)
    }

    pub(super) fn is_granted(&self, question: usize, now: Millis) -> bool {
        let binding = self.questions[question].asked.binding;
        self.grants
            .iter()
            .any(|grant| grant.binding == binding && !grant.is_revoked && grant.expires_at > now)
    }

    pub(super) fn open_times(&self) -> impl Iterator<Item = Millis> {
        let open = self.questions.iter().filter(|question| question.status == ApprovalStatus::Pending);
        open.map(|question| question.asked.expires_at)
    }

    fn open_until(&self, now: Millis) -> Vec<usize> {
        let is_due = |question: &ModelQuestion| {
            question.status == ApprovalStatus::Pending && question.asked.expires_at <= now
        };
        (0..self.questions.len()).filter(|place| is_due(&self.questions[*place])).collect()
    }

    pub(super) fn differs_from(&self, rows: &[Approval]) -> Option<String> {
        let state = |id: &ApprovalId| rows.iter().find(|row| row.id == *id).map(|row| row.status);
        if rows.len() != self.questions.len() {
            return Some(format!("there are {} questions instead of {}", rows.len(), self.questions.len()));
        }
        let unlike =
            self.questions.iter().find(|question| state(&question.asked.id) != Some(question.status))?;
        Some(format!("I6: {} is {:?} instead of {}", unlike.asked.id, state(&unlike.asked.id), unlike.status))
    }
}
