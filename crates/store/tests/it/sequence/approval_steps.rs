//! The steps of approvals: each asks the store and the model the same, and compares their answers.

use super::approval_model::{Answered, Around};
use super::operation::{ApprovalOperation, By, Resolve, Suspend};
use super::world::{Checked, Models, Seeded, World, same, told};
use cortex_store::{Answerer, ApprovalKey, AskedApproval, Resolved, Suspension};
use cortex_testkit::{new_reply, topic};
use cortex_types::{
    ApprovalId, Decision, Event, GrantId, Millis, NewApproval, NewReply, OutboxId, Step, StepBody,
};
use futures::future::join_all;
use rusqlite::Connection;
use std::time::Duration;
use tempfile::TempDir;
use ulid::Ulid;

impl World {
    pub(super) async fn approval_step(&mut self, operation: ApprovalOperation) -> Checked {
        match operation {
            ApprovalOperation::Suspend(suspend) => self.suspend(&suspend).await,
            ApprovalOperation::Resolve(resolve) => self.resolve(&resolve).await,
            ApprovalOperation::Expire => self.expire().await,
            ApprovalOperation::Grant { question, seconds } => self.grant(question, seconds).await,
            ApprovalOperation::Revoke { grant } => self.revoke(grant).await,
        }
    }

    async fn suspend(&mut self, suspend: &Suspend) -> Checked {
        let Some(index) = self.running(suspend.event) else { return Ok(()) };
        let row = self.row_of(index)?;
        let (steps, asked) = self.questions_of(index, &row, suspend);
        let suspension = Suspension { steps, asked: asked.clone(), ..Suspension::default() };
        let found = self.store.approvals().suspend(&row, suspension, self.now).await.map_err(told)?;
        let now = self.now;
        let Models { inbox, outbox, approvals, .. } = &mut self.models;
        same("a suspension", &found, &approvals.suspend(index, asked, Around { inbox, outbox, now }))
    }

    pub(super) async fn killed_in_suspend(&mut self, suspend: &Suspend, after: &mut Models) -> TempDir {
        let Some(index) = self.running(suspend.event) else { return self.store.crash_image() };
        let Ok(row) = self.row_of(index) else { return self.store.crash_image() };
        let (steps, asked) = self.questions_of(index, &row, suspend);
        let Models { inbox, outbox, approvals, .. } = after;
        approvals.suspend(index, asked.clone(), Around { inbox, outbox, now: self.now });
        let store = self.store.approvals();
        let suspension = Suspension { steps, asked, ..Suspension::default() };
        let suspended = store.suspend(&row, suspension, self.now);
        let (_, image) = tokio::join!(suspended, async { self.store.crash_image() });
        image
    }

    fn questions_of(&self, index: usize, row: &Event, suspend: &Suspend) -> (Vec<Step>, Vec<AskedApproval>) {
        let first = self.models.inbox.events[index].steps;
        let asked = (0..suspend.questions).map(|number| {
            let id = ApprovalId::from_ulid(Ulid::generate());
            let call_id = format!("call {number}");
            let body = StepBody::ApprovalAsked { call_id: call_id.clone(), approval: id.clone() };
            let approval = NewApproval {
                token_sha256: token_of(&id),
                binding: token_of(&id),
                id,
                call_id,
                tool_name: "door.open".to_owned(),
                tool_arguments_json: "{}".to_owned(),
                question: "May I?".to_owned(),
                preview: None,
                expires_at: Millis(self.now.0 + suspend.open_ms),
            };
            let prompt = new_reply(&row.topic, &format!("may I {}.{number}?", self.steps));
            (Step { number: first + number, at: self.now, body }, AskedApproval { approval, prompt })
        });
        asked.unzip()
    }

    async fn resolve(&mut self, resolve: &Resolve) -> Checked {
        let Some(question) = self.any_question(resolve.question) else { return Ok(()) };
        let (key, by, may_answer) = self.answer_to(question, resolve);
        let decisions = (0..resolve.times).map(|time| {
            if (time % 2 == 0) == resolve.approves { Decision::Approved } else { Decision::Denied }
        });
        let answers: Vec<(Decision, NewReply)> =
            decisions.map(|decision| (decision, self.line(question))).collect();
        let approvals = self.store.approvals();
        let asked = answers.iter().map(|(decision, line)| {
            let line = line.clone();
            approvals.resolve(key.clone(), *decision, by.clone(), self.now, move |_| Some(line.clone()))
        });
        let found: Result<Vec<Resolved>, _> = join_all(asked).await.into_iter().collect();
        let now = self.now;
        for (resolved, (decision, line)) in found.map_err(told)?.iter().zip(answers) {
            let answered = kind_of(resolved).ok_or("I6: the question is unknown")?;
            if answered == Answered::Decided {
                self.promises.decided(&self.models.approvals.questions[question].asked.id)?;
            }
            let Models { inbox, outbox, approvals, .. } = &mut self.models;
            let around = Around { inbox, outbox, now };
            let expected = approvals.resolve(question, decision, may_answer, line, around);
            same("I6: an answer", &answered, &expected)?;
        }
        if self.seeded == Seeded::DecisionForgotten {
            let connection = Connection::open(self.store.path()).unwrap();
            connection
                .execute("UPDATE pending_approvals SET status = 'pending', resolved_at = NULL", [])
                .unwrap();
        }
        Ok(())
    }

    pub(super) async fn killed_in_resolve(&mut self, resolve: &Resolve, after: &mut Models) -> TempDir {
        let Some(question) = self.any_question(resolve.question) else { return self.store.crash_image() };
        let (key, by, may_answer) = self.answer_to(question, resolve);
        let line = self.line(question);
        let Models { inbox, outbox, approvals, .. } = after;
        let around = Around { inbox, outbox, now: self.now };
        approvals.resolve(question, Decision::Approved, may_answer, line.clone(), around);
        let store = self.store.approvals();
        let resolved = store.resolve(key, Decision::Approved, by, self.now, move |_| Some(line.clone()));
        let (_, image) = tokio::join!(resolved, async { self.store.crash_image() });
        image
    }

    /// Which question, who answers, and whether he may.
    fn answer_to(&self, question: usize, resolve: &Resolve) -> (ApprovalKey, Answerer, bool) {
        let asked = &self.models.approvals.questions[question];
        let event = &self.models.inbox.events[asked.event];
        let person = |topic, user_id: &str, is_approver| Answerer::Person {
            topic,
            user_id: user_id.to_owned(),
            is_approver,
        };
        let (by, may_answer) = match resolve.by {
            By::Owner => (Answerer::Owner, true),
            By::Asked => (person(event.topic(), &event.new.user_id, false), true),
            By::Approver => (person(topic("elsewhere", "desk"), "boss", true), true),
            By::OtherUser => (person(event.topic(), "stranger", false), false),
            By::OtherTopic => (person(topic("elsewhere", "desk"), &event.new.user_id, false), false),
        };
        let key = match resolve.by_token {
            true => ApprovalKey::TokenSha256(asked.asked.token_sha256),
            false => ApprovalKey::Id(asked.asked.id.clone()),
        };
        (key, by, may_answer)
    }

    pub(super) async fn expire(&mut self) -> Checked {
        let line = |resolved: &Resolved| match resolved {
            Resolved::Expired(approval) => Some(expiry_line(&approval.id, &approval.topic)),
            Resolved::Decided { .. } | Resolved::Already(_) | Resolved::NotYours | Resolved::Unknown => None,
        };
        let found = self.store.approvals().expire_due(self.now, line).await.map_err(told)?;
        let expired = self.models.approvals.expire(&mut self.models.inbox, self.now);
        for question in &expired {
            let question = &self.models.approvals.questions[*question];
            let event = &self.models.inbox.events[question.event];
            let line = expiry_line(&question.asked.id, &event.topic());
            self.models.outbox.queue(vec![line], &event.origin(), self.now);
        }
        same("I6: expired", &found, &expired.len())
    }

    async fn grant(&mut self, question: usize, seconds: u64) -> Checked {
        let Some(question) = self.any_question(question) else { return Ok(()) };
        let (id, lasting) = (GrantId::from_ulid(Ulid::generate()), Duration::from_secs(seconds));
        let of = self.models.approvals.questions[question].asked.id.clone();
        let made = self.store.approvals().grant(id.clone(), of, lasting, self.now).await.map_err(told)?;
        same("a grant", &made, &Some(id.clone()))?;
        self.models.approvals.grant(id, question, self.now.after(lasting));
        Ok(())
    }

    async fn revoke(&mut self, grant: usize) -> Checked {
        let Some(grant) = grant.checked_rem(self.models.approvals.grants.len()) else { return Ok(()) };
        let id = self.models.approvals.grants[grant].id.clone();
        let revoked = self.store.approvals().revoke(id, self.now).await.map_err(told)?;
        same("a revocation", &revoked, &self.models.approvals.revoke(grant))
    }

    /// I6: a grant covers its own call, for its time, and nothing else.
    pub(super) async fn check_grants(&self) -> Checked {
        for (place, question) in self.models.approvals.questions.iter().enumerate() {
            let found =
                self.store.approvals().is_granted(question.asked.binding, self.now).await.map_err(told)?;
            same("I6: a grant", &found, &self.models.approvals.is_granted(place, self.now))?;
        }
        Ok(())
    }

    fn any_question(&self, question: usize) -> Option<usize> {
        question.checked_rem(self.models.approvals.questions.len())
    }

    fn line(&self, question: usize) -> NewReply {
        let event = self.models.approvals.questions[question].event;
        new_reply(&self.models.inbox.events[event].topic(), &format!("decided {}", self.steps))
    }
}

fn kind_of(resolved: &Resolved) -> Option<Answered> {
    match resolved {
        Resolved::Decided { .. } => Some(Answered::Decided),
        Resolved::Already(_) => Some(Answered::Already),
        Resolved::Expired(_) => Some(Answered::Expired),
        Resolved::NotYours => Some(Answered::NotYours),
        Resolved::Unknown => None,
    }
}

/// Any 32 bytes that belong to this question alone.
fn token_of(id: &ApprovalId) -> [u8; 32] {
    let mut bytes = [0; 32];
    let text = id.as_str().as_bytes();
    bytes[..text.len().min(32)].copy_from_slice(&text[..text.len().min(32)]);
    bytes
}

/// What the sweeper tells; its id follows from the question's.
fn expiry_line(id: &ApprovalId, topic: &cortex_types::TopicRef) -> NewReply {
    let id: OutboxId = id.as_str().replacen(ApprovalId::PREFIX, OutboxId::PREFIX, 1).parse().unwrap();
    NewReply { id, ..new_reply(topic, "Nobody answered in time.") }
}
