//! A flow with hands: a box of counted tools, a model that obeys, and people who answer or only pretend to.

use crate::far_side::{Answering, FarSide, Question, called, said};
use async_trait::async_trait;
use cortex_runtime::{IncomingEvent, RuntimeConfig};
use cortex_store::{OutboxMessage, PageRequest};
use cortex_testkit::{FrozenTime, RuntimeSetup, TestModels, TestRuntime, eventually};
use cortex_tools::{
    CallContext, Mutation, Registry, RegistryBuilder, ToolCallError, ToolDefinition, ToolName, ToolOutcome,
    ToolRunner, ToolSource,
};
use cortex_types::{AcceptedEvent, EventId, InboxStatus, Millis, Priority, Speaker};
use serde_json::Value;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

const ALL: PageRequest = PageRequest { before: None, limit: 500 };
const PROMPT: &str = "May I run ";

/// Somebody at a place: source, topic and user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Person(pub(crate) &'static str, pub(crate) &'static str, pub(crate) &'static str);

/// Who talks to the assistant in these tests.
pub(crate) const ADA: Person = Person("test", "a", "ada");

/// Counts what it is made to do: `box.send` changes something, `box.look` only reads.
#[derive(Default)]
pub(crate) struct CountingBox {
    sent: Mutex<Vec<String>>,
    looked: AtomicUsize,
    /// What `box.look` finds.
    found: Mutex<String>,
}

impl CountingBox {
    pub(crate) fn holding(found: &str) -> Arc<Self> {
        Arc::new(Self { found: Mutex::new(found.to_owned()), ..Self::default() })
    }

    /// The arguments `box.send` ran with.
    pub(crate) fn sent(&self) -> Vec<String> {
        self.sent.lock().unwrap().clone()
    }

    pub(crate) fn looked(&self) -> usize {
        self.looked.load(Ordering::SeqCst)
    }

    pub(crate) fn put(&self, found: &str) {
        found.clone_into(&mut self.found.lock().unwrap());
    }

    /// Both tools; `words` describes the one that sends.
    pub(crate) fn tools(self: &Arc<Self>, words: &str) -> RegistryBuilder {
        let runner = Arc::clone(self) as Arc<dyn ToolRunner>;
        let send = definition("box.send", words, Mutation::Mutates);
        let look = definition("box.look", "Looks into the box.", Mutation::ReadOnly);
        Registry::builder().add_all([send, look], &runner).unwrap()
    }
}

#[async_trait]
impl ToolRunner for CountingBox {
    async fn run(
        &self,
        name: &ToolName,
        arguments: &str,
        _: &CallContext,
    ) -> Result<ToolOutcome, ToolCallError> {
        let text = if name.tool() == "send" {
            self.sent.lock().unwrap().push(arguments.to_owned());
            format!("sent {arguments}")
        } else {
            self.looked.fetch_add(1, Ordering::SeqCst);
            self.found.lock().unwrap().clone()
        };
        Ok(ToolOutcome { text })
    }
}

pub(crate) fn definition(name: &str, words: &str, mutation: Mutation) -> ToolDefinition {
    ToolDefinition {
        name: name.parse().unwrap(),
        description: words.to_owned(),
        input_schema_json: r#"{"type":"object"}"#.to_owned(),
        mutation,
        source: ToolSource::Skill { id: "box".to_owned(), version: "1".to_owned() },
        timeout: None,
    }
}

/// What was said last, and what tools answered to it since.
pub(crate) fn last_words(body: &Value) -> (String, Vec<String>) {
    let messages = body["messages"].as_array().unwrap();
    let text = |message: &Value| message["content"].as_str().unwrap_or_default().to_owned();
    let user = messages.iter().rposition(|message| message["role"] == "user").unwrap();
    let tools = messages[user..].iter().filter(|message| message["role"] == "tool");
    (text(&messages[user]), tools.map(text).collect())
}

/// Everything the model was asked, as it came over the wire.
pub(crate) type Heard = Arc<Mutex<Vec<Value>>>;

/// A model that calls what its user names and repeats what the tools said: `go` sends, `go both` sends twice, and
/// `go look` looks before it sends.
fn obey(question: &Question) -> String {
    let bob = ("1", "box__send", r#"{"to":"bob"}"#);
    match last_words(&question.body) {
        (said_last, told) if told.is_empty() => match said_last.as_str() {
            "go" => called(&[bob]),
            "go to eve" => called(&[("1", "box__send", r#"{"to":"eve"}"#)]),
            "go both" => called(&[bob, ("2", "box__send", r#"{"to":"eve"}"#)]),
            "go look" => called(&[bob, ("2", "box__look", "{}")]),
            other => said(&format!("Heard {other}")),
        },
        (_, told) => said(&format!("Tools: {}", told.join("; "))),
    }
}

/// A flow with a box, and all that can be seen of it from outside.
pub(crate) struct Stage {
    pub(crate) time: FrozenTime,
    pub(crate) counting: Arc<CountingBox>,
    pub(crate) heard: Heard,
    pub(crate) flow: TestRuntime,
    setup: RuntimeSetup,
    _far: Answering,
}

impl Stage {
    pub(crate) async fn set(change: impl Fn(&mut RuntimeConfig) + Send + Sync + 'static) -> Self {
        Self::set_with(change, CountingBox::holding("a red ball"), obey).await
    }

    pub(crate) async fn set_with(
        change: impl Fn(&mut RuntimeConfig) + Send + Sync + 'static,
        counting: Arc<CountingBox>,
        model: impl Fn(&Question) -> String + Send + 'static,
    ) -> Self {
        let time = FrozenTime::hold();
        let heard = Heard::default();
        let hearing = Arc::clone(&heard);
        let far = FarSide::listen().await.answer_all(move |question| {
            hearing.lock().unwrap().push(question.body.clone());
            model(question)
        });
        let setup = RuntimeSetup::new(TestModels::Synapse(far.url.clone()), &time).flow(change);
        let setup = with_box(setup, &counting, "Sends it.");
        let flow = setup.start().await;
        Self { time, counting, heard, flow, setup, _far: far }
    }

    /// Hands in an event over the owner's credential, and gives its id once nothing is left to do.
    pub(crate) async fn event(&self, from: Person, text: &str, metadata: Option<&str>) -> EventId {
        self.event_by(Speaker::owner(from.0), from, text, metadata).await
    }

    /// The same by another speaker, in the conversation and under the user id of this person.
    pub(crate) async fn event_by(
        &self,
        speaker: Speaker,
        from: Person,
        text: &str,
        metadata: Option<&str>,
    ) -> EventId {
        self.accept(speaker, from, text, metadata, self.time.now()).await
    }

    /// Something that was said earlier than it comes in.
    pub(crate) async fn event_at(&self, from: Person, text: &str, said_at: Millis) -> EventId {
        self.accept(Speaker::owner(from.0), from, text, None, said_at).await
    }

    async fn accept(
        &self,
        speaker: Speaker,
        from: Person,
        text: &str,
        metadata: Option<&str>,
        said_at: Millis,
    ) -> EventId {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let event = IncomingEvent {
            external_message_id: format!("hands {number}"),
            idempotency_key: format!("hands {number}"),
            topic_key: from.1.to_owned(),
            user_id: from.2.to_owned(),
            text: text.to_owned(),
            occurred_at: said_at,
            metadata_json: metadata.map(str::to_owned),
            priority: Priority::Normal,
        };
        let accepted = self.flow.runtime.intake().accept(&speaker, event).await.unwrap();
        self.settled().await;
        match accepted {
            AcceptedEvent::Queued(id) | AcceptedEvent::Duplicate { first: id, .. } => id,
            AcceptedEvent::ChannelOff => panic!("the channel of this test is live"),
            AcceptedEvent::NameRefused(why) => panic!("{why}"),
        }
    }

    /// Delivers what waits, as connectors that are there would.
    pub(crate) async fn deliver(&self) {
        let desk = self.flow.runtime.outbox();
        let sources: BTreeSet<String> =
            self.outbox().await.into_iter().map(|message| message.topic.source).collect();
        for source in sources {
            for delivery in desk.poll(source, None, None, false, None).await.unwrap() {
                desk.ack(delivery.id, delivery.lease).await.unwrap().unwrap();
            }
        }
    }

    /// Returns once every event has ended or waits for a person.
    pub(crate) async fn settled(&self) {
        eventually("every event to end or to wait", async || {
            let events = self.flow.store.inbox().list(None, ALL).await.unwrap().rows;
            let rests = |status: InboxStatus| match status {
                InboxStatus::Done | InboxStatus::Waiting | InboxStatus::Failed => true,
                InboxStatus::Pending | InboxStatus::Processing => false,
            };
            events.iter().all(|event| rests(event.status)).then_some(())
        })
        .await;
    }

    /// Every message in the outbox, oldest first.
    pub(crate) async fn outbox(&self) -> Vec<OutboxMessage> {
        let mut messages = self.flow.store.outbox().list(None, None, ALL).await.unwrap().rows;
        messages.reverse();
        messages
    }

    /// The questions among them.
    pub(crate) async fn prompts(&self) -> Vec<OutboxMessage> {
        let prompts = self.outbox().await.into_iter().filter(|message| message.text.starts_with(PROMPT));
        let desk = self.flow.runtime.outbox();
        // As a connector gets them: what is kept has no token.
        let handed_out = |payload_json| desk.handed_out(payload_json);
        prompts
            .map(|prompt| OutboxMessage { payload_json: handed_out(prompt.payload_json.clone()), ..prompt })
            .collect()
    }

    /// What people get beside the questions, each with its place.
    pub(crate) async fn lines(&self) -> Vec<String> {
        let messages = self.outbox().await.into_iter().filter(|message| !message.text.starts_with(PROMPT));
        messages
            .map(|message| format!("{}/{}: {}", message.topic.source, message.topic.topic_key, message.text))
            .collect()
    }

    /// The tokens of the questions that are open.
    pub(crate) async fn tokens(&self) -> Vec<String> {
        let prompts = self.prompts().await.into_iter();
        prompts.filter_map(|prompt| prompt.payload_json).map(|payload| token_in(&payload)).collect()
    }

    /// What users said, as far as the model was asked about it.
    pub(crate) fn heard_words(&self) -> Vec<String> {
        let mut words: Vec<String> =
            self.heard.lock().unwrap().iter().map(|body| last_words(body).0).collect();
        words.dedup();
        words
    }

    /// A clean stop and a start on the same files, with the box described like this.
    pub(crate) async fn restart(self, words: &str) -> Self {
        self.restart_after(words, async |_| {}).await
    }

    /// The same, and something happens while nothing runs.
    pub(crate) async fn restart_after(self, words: &str, meanwhile: impl AsyncFnOnce(&FrozenTime)) -> Self {
        let Self { time, counting, heard, flow, setup, _far } = self;
        let mut store = flow.stop().await;
        meanwhile(&time).await;
        store.restart();
        let setup = with_box(setup, &counting, words);
        let flow = setup.start_on(store).await;
        let stage = Self { time, counting, heard, flow, setup, _far };
        stage.settled().await;
        stage
    }
}

fn with_box(setup: RuntimeSetup, counting: &Arc<CountingBox>, words: &str) -> RuntimeSetup {
    let (counting, words) = (Arc::clone(counting), words.to_owned());
    setup.tools(move || counting.tools(&words))
}

/// The token in a prompt's payload, which both of its buttons carry.
pub(crate) fn token_in(payload_json: &str) -> String {
    let payload: Value = serde_json::from_str(payload_json).unwrap();
    let data = payload["buttons"][0]["data"].as_str().unwrap();
    data.strip_suffix(":approve").unwrap().to_owned()
}
