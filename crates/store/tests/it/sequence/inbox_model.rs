//! What the inbox should do, said as simply as possible: a list of events in order of arrival (D6, D7).

use super::outbox_model::OutboxModel;
use cortex_store::{Recovered, Rescued};
use cortex_testkit::new_reply;
use cortex_types::{
    AcceptedEvent, Event, EventId, InboxStatus, Millis, NewEvent, NewReply, OutboxId, Priority, TopicRef,
};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

#[derive(Clone)]
pub(super) struct ModelEvent {
    pub(super) new: NewEvent,
    pub(super) status: InboxStatus,
    pub(super) attempts: u32,
    pub(super) steps: u32,
    restarts: u32,
    steps_at_claim: u32,
    pub(super) decided_since_claim: bool,
    /// What it said is in the history, because it asked somebody.
    stands_in_history: bool,
    failed_with: Option<String>,
    /// Zero: at once.
    due_at: Millis,
    /// A claim saw it due while it led its topic; a clock that goes back does not hide it again.
    found_due: bool,
}

impl ModelEvent {
    pub(super) fn topic(&self) -> TopicRef {
        TopicRef { source: self.new.source.clone(), topic_key: self.new.topic_key.clone() }
    }

    /// The channel of the event.
    pub(super) fn origin(&self) -> String {
        self.new.channel.clone().unwrap_or_else(|| self.new.source.clone())
    }

    /// D9: the event waits for a person, its topic is free, and the attempt is given back. It goes on when somebody
    /// answered while it ran.
    fn rest(&mut self) {
        self.status = if self.decided_since_claim { InboxStatus::Pending } else { InboxStatus::Waiting };
        (self.attempts, self.due_at) = (self.attempts.saturating_sub(1), Millis(0));
    }

    fn is_like(&self, row: &Event) -> bool {
        (&self.new.id, &self.new.text, self.topic()) == (&row.id, &row.text, row.topic.clone())
            && (self.status, self.attempts, &self.failed_with) == (row.status, row.attempts, &row.error)
            && self.new.standing == row.standing
    }
}

/// How a model turn ends; the words are the store's.
#[derive(Debug, Clone)]
pub(super) enum ModelEnd {
    Answered { content: String, replies: Vec<NewReply> },
    Failed { reason: String, replies: Vec<NewReply> },
    RetryAt { due_at: Millis, reason: String },
    Parked,
    Waiting,
}

#[derive(Clone, Default)]
pub(super) struct InboxModel {
    /// In order of arrival.
    pub(super) events: Vec<ModelEvent>,
    /// The lines of each topic: role and content.
    pub(super) history: BTreeMap<TopicRef, Vec<(&'static str, String)>>,
    /// Sources and channels that are off.
    pub(super) off: BTreeSet<String>,
}

impl InboxModel {
    /// D6: source and external id are kept once; the first one wins.
    pub(super) fn accept(&mut self, new: &NewEvent) -> AcceptedEvent {
        let first = self.events.iter().find(|event| {
            (&event.new.source, &event.new.external_message_id) == (&new.source, &new.external_message_id)
        });
        if let Some(first) = first {
            let same_body = (&first.new.topic_key, &first.new.text) == (&new.topic_key, &new.text);
            return AcceptedEvent::Duplicate { first: first.new.id.clone(), same_body };
        }
        let leader = self.head(&TopicRef { source: new.source.clone(), topic_key: new.topic_key.clone() });
        if let Some(leader) = leader.filter(|leader| new.priority < self.events[*leader].new.priority) {
            self.events[leader].found_due = false;
        }
        self.events.push(ModelEvent {
            new: new.clone(),
            status: InboxStatus::Pending,
            attempts: 0,
            steps: 0,
            restarts: 0,
            steps_at_claim: 0,
            decided_since_claim: false,
            stands_in_history: false,
            failed_with: None,
            due_at: Millis(0),
            found_due: false,
        });
        AcceptedEvent::Queued(new.id.clone())
    }

    /// D7: the heads of topics with nothing in flight. The source with the fewest turns goes first, what is in the
    /// background last; inside a source by priority, then by arrival. A head that backs off holds its topic.
    pub(super) fn claim(&mut self, limit: u32, now: Millis) -> Vec<EventId> {
        let topics: BTreeSet<TopicRef> = self.events.iter().map(ModelEvent::topic).collect();
        let mut ready: Vec<usize> = topics.iter().filter_map(|topic| self.head(topic)).collect();
        for index in &ready {
            let event = &mut self.events[*index];
            event.found_due |= event.due_at <= now;
        }
        ready.retain(|index| self.events[*index].found_due);
        let ready = self.in_turn(ready, limit as usize);
        for index in &ready {
            let event = &mut self.events[*index];
            event.status = InboxStatus::Processing;
            event.attempts += 1;
            event.steps_at_claim = event.steps;
            event.decided_since_claim = false;
        }
        ready.into_iter().map(|index| self.events[index].new.id.clone()).collect()
    }

    fn in_turn(&self, mut ready: Vec<usize>, limit: usize) -> Vec<usize> {
        let source = |index: usize| &self.events[index].new.source;
        // Whoever came without a key shares its turns with all others who did.
        let sharer = |index: usize| match source(index) {
            stranger if stranger.starts_with("local:") => "local:",
            known => known.as_str(),
        };
        let mut running: Vec<&str> = self.in_state(InboxStatus::Processing).into_iter().map(sharer).collect();
        let mut chosen = Vec::new();
        while chosen.len() < limit {
            let leads = |index: usize| {
                let rank = |index: usize| (self.events[index].new.priority, index);
                ready.iter().all(|other| source(*other) != source(index) || rank(index) <= rank(*other))
            };
            let place = |index: &usize| {
                let turns = running.iter().filter(|running| **running == sharer(*index)).count();
                (self.events[*index].new.priority == Priority::Background, turns, *index)
            };
            let first = ready.iter().copied().filter(|index| leads(*index)).min_by_key(place);
            let Some(first) = first else { break };
            running.push(sharer(first));
            ready.retain(|index| *index != first);
            chosen.push(first);
        }
        chosen
    }

    /// One transaction: history, replies and the event's own state.
    pub(super) fn finish(&mut self, index: usize, end: ModelEnd, outbox: &mut OutboxModel, now: Millis) {
        let topic = self.events[index].topic();
        let origin = self.events[index].origin();
        let event = &mut self.events[index];
        match end {
            ModelEnd::Answered { content, replies } => {
                (event.status, event.failed_with) = (InboxStatus::Done, None);
                let lines = self.history.entry(topic.clone()).or_default();
                if !event.stands_in_history {
                    lines.push(("user", event.new.text.clone()));
                }
                lines.push(("assistant", content));
                let leaves = |reply: &&NewReply| outbox.refusal(&origin, &reply.topic.source).is_none();
                for reply in replies.iter().filter(|reply| reply.topic != topic).filter(leaves) {
                    let elsewhere = self.history.entry(reply.topic.clone()).or_default();
                    elsewhere.push(("assistant", reply.text.clone()));
                }
                outbox.queue(replies, &origin, now);
            }
            ModelEnd::Failed { reason, replies } => {
                (event.status, event.failed_with) = (InboxStatus::Failed, Some(reason));
                outbox.queue(replies, &origin, now);
            }
            ModelEnd::RetryAt { due_at, reason } => {
                (event.status, event.failed_with) = (InboxStatus::Pending, Some(reason));
                event.due_at = due_at;
            }
            ModelEnd::Parked => {
                (event.status, event.due_at) = (InboxStatus::Pending, Millis(0));
                event.attempts -= 1;
            }
            ModelEnd::Waiting => event.rest(),
        }
        self.look_again(&topic);
    }

    pub(super) fn wait(&mut self, index: usize, new_steps: u32) {
        let event = &mut self.events[index];
        event.rest();
        event.steps += new_steps;
        let topic = event.topic();
        self.look_again(&topic);
    }

    /// A question stands in the history behind what it is about; the answer is its place there.
    pub(super) fn note_question(&mut self, index: usize, said: String) -> usize {
        let event = &mut self.events[index];
        let lines = self.history.entry(event.topic()).or_default();
        if !std::mem::replace(&mut event.stands_in_history, true) {
            lines.push(("user", event.new.text.clone()));
        }
        lines.push(("assistant", said));
        lines.len() - 1
    }

    pub(super) fn restate(&mut self, index: usize, line: usize, said: String) {
        let topic = self.events[index].topic();
        self.history.entry(topic).or_default()[line] = ("assistant", said);
    }

    /// A question of the event is answered.
    pub(super) fn wake(&mut self, index: usize) {
        let event = &mut self.events[index];
        if event.status == InboxStatus::Waiting {
            (event.status, event.due_at) = (InboxStatus::Pending, Millis(0));
            let topic = event.topic();
            self.look_again(&topic);
        }
    }

    /// D7: eligible at once; a restart counts as an attempt only without a new step, and fails an event only at the
    /// last allowed one.
    pub(super) fn recover(&mut self, restarts_max: u32, outbox: &mut OutboxModel, now: Millis) -> Recovered {
        let mut recovered = Recovered::default();
        for index in 0..self.events.len() {
            let event = &mut self.events[index];
            if event.status != InboxStatus::Processing {
                continue;
            }
            event.restarts += 1;
            if event.restarts >= restarts_max {
                event.status = InboxStatus::Failed;
                event.failed_with =
                    Some(format!("given up after {} restarts in the middle of its turn", event.restarts));
                let notice = restart_notice(&event.topic(), &event.new.id);
                outbox.queue(vec![notice], &event.origin(), now);
                recovered.failed += 1;
            } else {
                (event.status, event.due_at) = (InboxStatus::Pending, Millis(0));
                event.attempts -= u32::from(event.steps > event.steps_at_claim);
                recovered.requeued += 1;
            }
            let topic = self.events[index].topic();
            self.look_again(&topic);
        }
        recovered
    }

    /// No task works on the event any more: it is tried again, or failed when that was tried too often.
    pub(super) fn rescue(
        &mut self,
        index: usize,
        attempts_max: u32,
        outbox: &mut OutboxModel,
        now: Millis,
    ) -> Rescued {
        let event = &mut self.events[index];
        let rescued = if event.attempts >= attempts_max {
            event.status = InboxStatus::Failed;
            event.failed_with = Some("its turn was lost every time".to_owned());
            outbox.queue(vec![restart_notice(&event.topic(), &event.new.id)], &event.origin(), now);
            Rescued { failed: vec![event.new.id.clone()], ..Rescued::default() }
        } else {
            (event.status, event.due_at) = (InboxStatus::Pending, Millis(0));
            Rescued { requeued: vec![event.new.id.clone()], ..Rescued::default() }
        };
        let topic = self.events[index].topic();
        self.look_again(&topic);
        rescued
    }

    /// D18: the modes changed; what waits where everything is off does so until it is not.
    pub(super) fn look_at_all_again(&mut self) {
        let topics: BTreeSet<TopicRef> = self.events.iter().map(ModelEvent::topic).collect();
        for topic in topics {
            let runs = |event: &ModelEvent| event.topic() == topic && event.status == InboxStatus::Processing;
            if !self.events.iter().any(runs) {
                self.look_again(&topic);
            }
        }
    }

    pub(super) fn retry_failed(&mut self, index: usize) -> Result<(), InboxStatus> {
        let event = &mut self.events[index];
        if event.status != InboxStatus::Failed {
            return Err(event.status);
        }
        (event.status, event.due_at, event.failed_with) = (InboxStatus::Pending, Millis(0), None);
        (event.attempts, event.restarts) = (0, 0);
        let topic = event.topic();
        self.look_again(&topic);
        Ok(())
    }

    /// After a start: a clock that was set back holds no topic for longer than the horizon.
    pub(super) fn clamp(&mut self, horizon: Duration, now: Millis) {
        for event in self.events.iter_mut().filter(|event| event.status == InboxStatus::Pending) {
            event.due_at = event.due_at.min(now.after(horizon));
        }
    }

    /// Whether the channel of an event's topic lets it run.
    pub(super) fn may_run(&self, id: &EventId) -> bool {
        self.events.iter().any(|event| event.new.id == *id && !self.off.contains(&event.new.source))
    }

    /// The event that leads a topic: the most urgent, then the oldest; none while one is in flight.
    fn head(&self, topic: &TopicRef) -> Option<usize> {
        let of_topic = || self.events.iter().enumerate().filter(|(_, event)| event.topic() == *topic);
        if of_topic().any(|(_, event)| event.status == InboxStatus::Processing) {
            return None;
        }
        let may_run = |event: &ModelEvent| {
            event.status == InboxStatus::Pending && !self.off.contains(&event.new.source)
        };
        let pending = of_topic().filter(|(_, event)| may_run(event));
        pending.min_by_key(|(index, event)| (event.new.priority, *index)).map(|(index, _)| index)
    }

    /// The lead of a topic is decided anew, from the due times as they were planned.
    fn look_again(&mut self, topic: &TopicRef) {
        for event in self.events.iter_mut().filter(|event| event.topic() == *topic) {
            event.found_due = false;
        }
    }

    pub(super) fn is_at_rest(&self) -> bool {
        self.events.iter().all(|event| matches!(event.status, InboxStatus::Done | InboxStatus::Failed))
    }

    pub(super) fn due_times(&self) -> impl Iterator<Item = Millis> {
        let pending = self.events.iter().filter(|event| event.status == InboxStatus::Pending);
        pending.map(|event| event.due_at)
    }

    pub(super) fn in_state(&self, status: InboxStatus) -> Vec<usize> {
        (0..self.events.len()).filter(|index| self.events[*index].status == status).collect()
    }

    /// Compares with the rows of the store, newest first.
    pub(super) fn differs_from(&self, rows: &[Event]) -> Option<String> {
        if rows.len() != self.events.len() {
            return Some(format!("the inbox holds {} events instead of {}", rows.len(), self.events.len()));
        }
        let unlike = self.events.iter().rev().zip(rows).find(|(event, row)| !event.is_like(row))?;
        let (event, row) = unlike;
        let expected = (&event.new.text, event.status, event.attempts, &event.failed_with);
        Some(format!("an event is {row:?} instead of {expected:?}"))
    }
}

/// What the start tells a user whose event it gives up; its id follows from the event's.
pub(super) fn restart_notice(topic: &TopicRef, event: &EventId) -> NewReply {
    let id: OutboxId = event.as_str().replacen(EventId::PREFIX, OutboxId::PREFIX, 1).parse().unwrap();
    NewReply { id, ..new_reply(topic, "I was restarted too often during this.") }
}
