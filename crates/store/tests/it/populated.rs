//! A store with rows in every state, and everything it says about them.

use cortex_store::{
    FinishedTurn, HistoryRow, Nack, OutboxMessage, OutboxPoll, Store, StoreError, TracedEvent, TurnEnd,
};
use cortex_testkit::{TempStore, new_event, new_reply, topic};
use cortex_types::{
    Delivery, Event, EventId, InboxStatus, Millis, NewEvent, OutboxId, OutboxStatus, Priority, Step,
    StepBody, TopicRef,
};
use std::collections::BTreeMap;
use std::time::Duration;

const SOURCES: [&str; 2] = ["telegram", "slack"];
/// When everything that backs off is due and every lease is over.
pub(crate) const LATER: Millis = Millis(10_000_000);

/// What can be asked about.
#[derive(Default)]
pub(crate) struct Populated {
    events: Vec<EventId>,
    messages: Vec<OutboxId>,
    topics: Vec<TopicRef>,
    now: i64,
}

/// Everything the store says about what it holds; an error is an answer too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Answers {
    pub(crate) events: BTreeMap<EventId, Result<Option<Event>, StoreError>>,
    pub(crate) traces: BTreeMap<EventId, Result<Option<TracedEvent>, StoreError>>,
    pub(crate) messages: BTreeMap<OutboxId, Result<Option<OutboxMessage>, StoreError>>,
    pub(crate) history: BTreeMap<TopicRef, Result<Vec<HistoryRow>, StoreError>>,
}

/// Fills a new store; the end of one more turn is left for the caller to commit last.
pub(crate) async fn populate() -> (TempStore, Populated) {
    let store = TempStore::create();
    let mut rows = Populated::default();
    for number in 0..18 {
        let chat = topic(SOURCES[number % 2], &format!("chat {}", number % 4));
        rows.answer(&store, &chat, &format!("question {number}"), number).await;
    }
    rows.deliver_some(&store).await;
    let long = "a long story. ".repeat(900);
    rows.answer(&store, &topic("telegram", "long"), &long, 2).await;

    let failing = topic("telegram", "failing");
    let event = rows.claim(&store, &failing, "fail me", Priority::Urgent).await;
    let notice = new_reply(&failing, "I could not answer this.");
    rows.messages.push(notice.id.clone());
    let failed = TurnEnd::Failed { reason: "no model".to_owned(), replies: vec![notice] };
    store.turns().finish_turn(&event, failed, Vec::new(), Millis(rows.now)).await.unwrap();

    let retrying = rows.claim(&store, &topic("slack", "retrying"), "retry me", Priority::Normal).await;
    let retry = TurnEnd::RetryAt { due_at: Millis(rows.now + 60_000), reason: "503".to_owned() };
    store.turns().finish_turn(&retrying, retry, Vec::new(), Millis(rows.now)).await.unwrap();

    let running = rows.claim(&store, &topic("telegram", "running"), "run me", Priority::Normal).await;
    store
        .turns()
        .record_steps(&running, vec![step(0), step(1)], Vec::new(), Vec::new(), cortex_types::Millis(1))
        .await
        .unwrap();
    for number in 0..6 {
        let chat = topic("telegram", ["running", "idle"][number % 2]);
        rows.accept(&store, &chat, &format!("waiting {number}"), Priority::Background).await;
    }
    (store, rows)
}

impl Populated {
    async fn accept(&mut self, store: &Store, topic: &TopicRef, text: &str, priority: Priority) {
        self.now += 10;
        let metadata_json = Some(format!(r#"{{"priority":"{priority:?}"}}"#));
        let event = NewEvent { priority, metadata_json, ..new_event(topic, text) };
        self.events.push(event.id.clone());
        if !self.topics.contains(topic) {
            self.topics.push(topic.clone());
        }
        store.inbox().accept(event, Millis(self.now)).await.unwrap();
    }

    async fn claim(&mut self, store: &Store, topic: &TopicRef, text: &str, priority: Priority) -> Event {
        self.accept(store, topic, text, priority).await;
        store.inbox().claim_next(1, Millis(self.now)).await.unwrap().whole.remove(0).event
    }

    async fn answer(&mut self, store: &Store, topic: &TopicRef, text: &str, steps: usize) {
        let event = self.claim(store, topic, text, Priority::Normal).await;
        let steps = u32::try_from(steps % 3).unwrap();
        store
            .turns()
            .record_steps(
                &event,
                (0..steps).map(step).collect(),
                Vec::new(),
                Vec::new(),
                cortex_types::Millis(1),
            )
            .await
            .unwrap();
        let end = self.end_of(&event, steps);
        store.turns().finish_turn(&event, end, Vec::new(), Millis(self.now)).await.unwrap();
    }

    fn end_of(&mut self, event: &Event, steps: u32) -> TurnEnd {
        let content = format!("answer to {}", event.text);
        let reply = new_reply(&event.topic, &content);
        self.messages.push(reply.id.clone());
        TurnEnd::Answered(Box::new(FinishedTurn {
            last_step: Some(step(steps)),
            content,
            replies: vec![reply],
            ..FinishedTurn::default()
        }))
    }

    /// Leaves messages acked, nacked, dead, given up, leased and untouched.
    async fn deliver_some(&mut self, store: &Store) {
        self.now += 10;
        let now = Millis(self.now);
        for source in SOURCES {
            let deliveries = store.outbox().claim_due(poll(source, 7), now).await.unwrap();
            for (number, delivery) in deliveries.into_iter().enumerate() {
                let Delivery { id, lease, .. } = delivery;
                let error = Some("chat is gone".to_owned());
                let nack = Nack {
                    id: id.clone(),
                    lease: lease.clone(),
                    error,
                    retry_after: None,
                    permanent: number % 5 == 1,
                };
                match number % 5 {
                    0 => drop(store.outbox().ack(id, lease, now).await.unwrap().unwrap()),
                    1 | 2 => drop(
                        store.outbox().nack(nack, |_| Duration::from_secs(60), now).await.unwrap().unwrap(),
                    ),
                    3 => drop(store.outbox().discard(id, now).await.unwrap()),
                    _ => {}
                }
            }
        }
    }

    /// One more transaction with several kinds of row in it.
    pub(crate) async fn finish_the_running_turn(&mut self, store: &Store) {
        let page = cortex_store::PageRequest::newest(1);
        let running = store.inbox().list(Some(InboxStatus::Processing), page).await.unwrap().rows.remove(0);
        self.now += 10;
        let end = self.end_of(&running, 2);
        store.turns().finish_turn(&running, end, Vec::new(), Millis(self.now)).await.unwrap();
    }

    pub(crate) async fn ask(&self, store: &Store) -> Answers {
        let mut events = BTreeMap::new();
        let mut traces = BTreeMap::new();
        for id in &self.events {
            events.insert(id.clone(), store.inbox().find(id.clone()).await);
            traces.insert(id.clone(), store.trace(id.clone()).await);
        }
        let mut messages = BTreeMap::new();
        for id in &self.messages {
            messages.insert(id.clone(), store.outbox().find(id.clone()).await);
        }
        let mut history = BTreeMap::new();
        for topic in &self.topics {
            history.insert(topic.clone(), store.turns().history(topic.clone(), 1_000).await);
        }
        Answers { events, traces, messages, history }
    }
}

impl Answers {
    pub(crate) fn event(&self, id: &EventId) -> Option<&Event> {
        self.events.get(id)?.as_ref().ok()?.as_ref()
    }

    pub(crate) fn message(&self, id: &OutboxId) -> Option<&OutboxMessage> {
        self.messages.get(id)?.as_ref().ok()?.as_ref()
    }

    /// Whether rows in every state a store can make are here; else the damage test proves less than it says.
    pub(crate) fn cover_every_state(&self) -> bool {
        let events: Vec<InboxStatus> =
            self.events.keys().filter_map(|id| self.event(id)).map(|event| event.status).collect();
        let messages: Vec<OutboxStatus> =
            self.messages.keys().filter_map(|id| self.message(id)).map(|message| message.status).collect();
        let inbox = [InboxStatus::Pending, InboxStatus::Processing, InboxStatus::Done, InboxStatus::Failed];
        let outbox = [
            OutboxStatus::Pending,
            OutboxStatus::Leased,
            OutboxStatus::Delivered,
            OutboxStatus::Dead,
            OutboxStatus::Discarded,
        ];
        inbox.iter().all(|status| events.contains(status))
            && outbox.iter().all(|status| messages.contains(status))
    }
}

pub(crate) fn poll(source: &str, max: u32) -> OutboxPoll {
    let lease = Duration::from_secs(30);
    OutboxPoll {
        source: source.to_owned(),
        max,
        lease,
        ordered: false,
        attempts_max: 9,
        pushed: false,
        holder: None,
        topic_key: None,
    }
}

pub(crate) fn sources() -> [&'static str; 2] {
    SOURCES
}

fn step(number: u32) -> Step {
    let body = StepBody::ToolAnswered {
        call_id: format!("call {number}"),
        name: "clock.now".to_owned(),
        text: format!("it is {number} o'clock"),
        ending: cortex_types::ToolEnding::Done,
    };
    Step { number, at: Millis(5), body }
}
