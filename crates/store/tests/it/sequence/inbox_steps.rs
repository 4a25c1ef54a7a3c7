//! The steps of the inbox: each asks the store and the model the same, and compares their answers.

use super::inbox_model::ModelEnd;
use super::operation::{Accept, Answer, Claim, InboxOperation};
use super::world::{Checked, Models, Seeded, World, channel_of, same, told};
use cortex_store::{FinishedTurn, RetryRefused, StoreError, TurnEnd};
use cortex_testkit::{new_event, new_reply, sent_again};
use cortex_types::{
    AcceptedEvent, Event, EventId, InboxStatus, Millis, NewEvent, Standing, Step, StepBody, is_local,
};
use futures::future::join_all;
use tempfile::TempDir;

impl World {
    pub(super) async fn inbox_step(&mut self, operation: InboxOperation) -> Checked {
        match operation {
            InboxOperation::Accept(accept) => self.accept(self.event_of(&accept)).await,
            InboxOperation::Duplicate { event, same_body, times } => {
                self.duplicate(event, same_body, times).await
            }
            InboxOperation::Claim(claim) => self.claim(claim.limit).await.map(drop),
            InboxOperation::RecordStep { event } => self.record_step(event).await,
            InboxOperation::Answer(answer) => match self.running(answer.event) {
                // A turn with an open question rests instead.
                Some(index) if self.models.approvals.has_open(index) => {
                    self.finish(index, ModelEnd::Waiting).await
                }
                Some(index) => self.finish(index, self.answer_of(index, &answer)).await,
                None => Ok(()),
            },
            InboxOperation::RetryLater { event, after_ms } => {
                let due_at = Millis(self.now.0 + after_ms);
                let end = ModelEnd::RetryAt { due_at, reason: "busy".to_owned() };
                self.finish_if_running(event, end).await
            }
            InboxOperation::Park { event } => self.finish_if_running(event, ModelEnd::Parked).await,
            InboxOperation::Fail { event } => {
                let replies = self.running(event).map(|index| self.models.inbox.events[index].topic());
                let replies = replies.map(|topic| new_reply(&topic, "sorry")).into_iter().collect();
                self.finish_if_running(event, ModelEnd::Failed { reason: "poison".to_owned(), replies }).await
            }
            InboxOperation::BrokenEnd { event, fault } => match self.running(event) {
                Some(index) => self.broken_end(index, fault).await,
                None => Ok(()),
            },
            InboxOperation::FinishAgain { event } => self.finish_again(event).await,
            InboxOperation::RetryFailed { event } => self.retry_failed(event).await,
        }
    }

    fn event_of(&self, accept: &Accept) -> NewEvent {
        let text = format!("text {}", self.steps);
        let topic = &self.topics[accept.topic];
        let channel = Some(channel_of(&topic.source))
            .filter(|channel| accept.names_channel && **channel != topic.source);
        let standing = if is_local(&topic.source) { Standing::Local } else { Standing::Owner };
        NewEvent {
            priority: accept.priority,
            channel: channel.map(str::to_owned),
            standing,
            ..new_event(topic, &text)
        }
    }

    async fn accept(&mut self, event: NewEvent) -> Checked {
        let expected = self.accept_in_models(&event);
        self.promises.accepted(&event.id);
        match self.seeded {
            Seeded::AckBeforeCommit => {
                self.unwritten = Some(event);
                Ok(())
            }
            Seeded::Nothing
            | Seeded::DecisionForgotten
            | Seeded::SlotForgotten
            | Seeded::OldRelease
            | Seeded::UnclampedCount => {
                same("accept", &self.store.inbox().accept(event, self.now).await.map_err(told)?, &expected)
            }
        }
    }

    fn accept_in_models(&mut self, event: &NewEvent) -> AcceptedEvent {
        let mut models = std::mem::take(&mut self.models);
        let accepted = self.accepted_by(&mut models, event);
        self.models = models;
        accepted
    }

    pub(super) async fn killed_in_accept(&mut self, accept: &Accept, after: &mut Models) -> TempDir {
        let event = self.event_of(accept);
        self.accepted_by(after, &event);
        let inbox = self.store.inbox();
        let (_, image) = tokio::join!(inbox.accept(event, self.now), async { self.store.crash_image() });
        image
    }

    async fn duplicate(&mut self, event: usize, same_body: bool, times: usize) -> Checked {
        let Some(first) = self.any_event(event) else { return Ok(()) };
        let first = self.models.inbox.events[first].new.clone();
        let text = if same_body { first.text.clone() } else { format!("{} and more", first.text) };
        let again = NewEvent { text, ..sent_again(&first) };
        let expected = AcceptedEvent::Duplicate { first: first.id, same_body };
        same("the model", &self.accept_in_models(&again), &expected)?;
        let inbox = self.store.inbox();
        let posts = (0..times).map(|_| inbox.accept(sent_again(&again), self.now));
        for answer in join_all(posts).await {
            same("I2: a duplicate", &answer.map_err(told)?, &expected)?;
        }
        Ok(())
    }

    async fn claim(&mut self, limit: u32) -> Checked<Vec<EventId>> {
        let claimed = self.store.inbox().claim_next(limit, self.now).await.map_err(told)?.whole;
        let ids: Vec<EventId> = claimed.iter().map(|claimed| claimed.event.id.clone()).collect();
        for id in &ids {
            self.promises.claimed(id, &self.seen)?;
        }
        same("claim", &ids, &self.models.inbox.claim(limit, self.now))?;
        for claimed in claimed {
            let known = self.models.inbox.events.iter().find(|event| event.new.id == claimed.event.id);
            let steps = u32::try_from(claimed.steps.len()).unwrap();
            same("the steps of a claimed event", &Some(steps), &known.map(|event| event.steps))?;
        }
        Ok(ids)
    }

    pub(super) async fn killed_in_claim(&mut self, claim: &Claim, after: &mut Models) -> TempDir {
        after.inbox.claim(claim.limit, self.now);
        let inbox = self.store.inbox();
        let (_, image) =
            tokio::join!(inbox.claim_next(claim.limit, self.now), async { self.store.crash_image() });
        image
    }

    async fn record_step(&mut self, event: usize) -> Checked {
        let Some(index) = self.running(event) else { return Ok(()) };
        let row = self.row_of(index)?;
        let number = self.models.inbox.events[index].steps;
        let body = StepBody::ToolAnswered {
            call_id: format!("call {number}"),
            name: "clock.now".to_owned(),
            text: "noon".to_owned(),
            ending: cortex_types::ToolEnding::Done,
        };
        let step = Step { number, at: self.now, body };
        self.store
            .turns()
            .record_steps(&row, vec![step], Vec::new(), Vec::new(), cortex_types::Millis(1))
            .await
            .map_err(told)?;
        self.models.inbox.events[index].steps += 1;
        Ok(())
    }

    pub(super) fn answer_of(&self, index: usize, answer: &Answer) -> ModelEnd {
        let own = self.models.inbox.events[index].topic();
        let other = self.topics.iter().find(|topic| topic.source != own.source).unwrap_or(&own);
        let replies = (0..answer.replies)
            .map(|number| {
                let goes_elsewhere = answer.elsewhere && number + 1 == answer.replies;
                new_reply(
                    if goes_elsewhere { other } else { &own },
                    &format!("reply {}.{number}", self.steps),
                )
            })
            .collect();
        ModelEnd::Answered { content: format!("answer {}", self.steps), replies }
    }

    async fn finish_if_running(&mut self, event: usize, end: ModelEnd) -> Checked {
        match self.running(event) {
            Some(index) => self.finish(index, end).await,
            None => Ok(()),
        }
    }

    async fn finish(&mut self, index: usize, end: ModelEnd) -> Checked {
        let row = self.row_of(index)?;
        if matches!(end, ModelEnd::Answered { .. }) {
            self.promises.answered(&row.id)?;
        }
        let finished = self.store.turns().finish_turn(&row, turn_end(&end), Vec::new(), self.now).await;
        finished.map_err(told)?;
        self.release_as_before();
        self.models.inbox.finish(index, end, &mut self.models.outbox, self.now);
        Ok(())
    }

    pub(super) async fn killed_in_answer(&mut self, answer: &Answer, after: &mut Models) -> TempDir {
        let running = self.running(answer.event).filter(|index| !self.models.approvals.has_open(*index));
        let Some(index) = running else { return self.store.crash_image() };
        let Ok(row) = self.row_of(index) else { return self.store.crash_image() };
        let end = self.answer_of(index, answer);
        after.inbox.finish(index, end.clone(), &mut after.outbox, self.now);
        let turns = self.store.turns();
        let finish = turns.finish_turn(&row, turn_end(&end), Vec::new(), self.now);
        let (_, image) = tokio::join!(finish, async { self.store.crash_image() });
        image
    }

    /// A turn that does not run cannot end, whatever it wants to leave behind.
    async fn finish_again(&mut self, event: usize) -> Checked {
        let idle = |index: &usize| self.models.inbox.events[*index].status != InboxStatus::Processing;
        let Some(index) = self.any_event(event).filter(idle) else { return Ok(()) };
        let row = self.row_of(index)?;
        let end = TurnEnd::Failed { reason: "late".to_owned(), replies: vec![new_reply(&row.topic, "late")] };
        match self.store.turns().finish_turn(&row, end, Vec::new(), self.now).await {
            Err(StoreError::Fault(_)) => Ok(()),
            other => Err(format!("I2: {} ended once more: {other:?}", row.id)),
        }
    }

    async fn retry_failed(&mut self, event: usize) -> Checked {
        let failed = self.models.inbox.in_state(InboxStatus::Failed);
        let failed = event.checked_rem(failed.len()).map(|place| failed[place]);
        let Some(index) = failed.filter(|_| !event.is_multiple_of(4)).or(self.any_event(event)) else {
            return Ok(());
        };
        let id = self.models.inbox.events[index].new.id.clone();
        let expected = self.models.inbox.retry_failed(index).map_err(RetryRefused::Is);
        same("retry", &self.store.inbox().retry_failed(id, self.now).await.map_err(told)?, &expected)
    }

    pub(super) async fn park_all(&mut self) -> Checked {
        for index in self.models.inbox.in_state(InboxStatus::Processing) {
            self.finish(index, ModelEnd::Parked).await?;
        }
        Ok(())
    }

    /// Messages that wait in the outbox before the sequence begins.
    pub(super) async fn send_before(&mut self, replies: usize) -> Checked {
        if replies == 0 {
            return Ok(());
        }
        self.accept(new_event(&self.topics[0], "say it")).await?;
        self.write_late().await?;
        self.check().await?;
        self.claim(1).await?;
        let answer = Answer { event: 0, replies, elsewhere: false };
        self.finish(0, self.answer_of(0, &answer)).await?;
        self.check().await
    }

    pub(super) async fn answer_what_is_ready(&mut self) -> Checked {
        self.claim(100).await?;
        for index in self.models.inbox.in_state(InboxStatus::Processing) {
            let answer = Answer { event: 0, replies: 1, elsewhere: false };
            self.finish(index, self.answer_of(index, &answer)).await?;
        }
        Ok(())
    }

    fn any_event(&self, event: usize) -> Option<usize> {
        event.checked_rem(self.models.inbox.events.len())
    }

    pub(super) fn running(&self, event: usize) -> Option<usize> {
        let running = self.models.inbox.in_state(InboxStatus::Processing);
        event.checked_rem(running.len()).map(|place| running[place])
    }

    pub(super) fn row_of(&self, index: usize) -> Checked<Event> {
        let id = &self.models.inbox.events[index].new.id;
        let row = self.seen.iter().find(|row| row.id == *id).cloned();
        row.ok_or_else(|| format!("I1: {id} was never seen"))
    }
}

pub(super) fn turn_end(end: &ModelEnd) -> TurnEnd {
    match end.clone() {
        ModelEnd::Answered { content, replies } => {
            TurnEnd::Answered(Box::new(FinishedTurn { content, replies, ..FinishedTurn::default() }))
        }
        ModelEnd::Failed { reason, replies } => TurnEnd::Failed { reason, replies },
        ModelEnd::RetryAt { due_at, reason } => TurnEnd::RetryAt { due_at, reason },
        ModelEnd::Parked => TurnEnd::Parked,
        ModelEnd::Waiting => TurnEnd::Waiting,
    }
}
