//! A call whose server is away: it has not started while it waits, whatever ends the wait.

use crate::far_side::{Answering, FarSide, called, said};
use crate::hands::{CountingBox, definition, last_words};
use async_trait::async_trait;
use cortex_store::PageRequest;
use cortex_testkit::{FrozenTime, RuntimeSetup, TempStore, TestModels, TestRuntime, eventually};
use cortex_tools::{
    CallContext, Mutation, ToolCallError, ToolDefinition, ToolName, ToolOutcome, ToolProvider, ToolRunner,
};
use cortex_types::{Decision, EventId, InboxStatus};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::watch;

const LONGEST: Duration = Duration::from_secs(30);
/// Shorter, so that a stop ends before the wait does.
const DRAIN: Duration = Duration::from_secs(5);
const TOLD: &str = "Approved: far.send runs as soon as its server is there. If that takes more than 30 seconds, \
                    it does not run, and I tell you.";

/// A server that goes and comes, and what it was made to do.
struct Server {
    is_known: watch::Sender<bool>,
    is_there: watch::Sender<bool>,
    waited_for: AtomicUsize,
    sent: AtomicUsize,
    looked: AtomicUsize,
}

impl Server {
    fn there() -> Arc<Self> {
        Arc::new(Self {
            is_known: watch::Sender::new(true),
            is_there: watch::Sender::new(true),
            waited_for: AtomicUsize::new(0),
            sent: AtomicUsize::new(0),
            looked: AtomicUsize::new(0),
        })
    }

    async fn wait(&self, state: &watch::Sender<bool>) -> Result<(), ToolCallError> {
        if *state.borrow() {
            return Ok(());
        }
        self.waited_for.fetch_add(1, Ordering::SeqCst);
        let mut seen = state.subscribe();
        match tokio::time::timeout(LONGEST, seen.wait_for(|is_there| *is_there)).await {
            Ok(_) => Ok(()),
            Err(_) => Err(ToolCallError::NotRun("the server is away".to_owned())),
        }
    }

    async fn is_waited_for(&self) {
        eventually("a call to wait", async || (self.waited_for.load(Ordering::SeqCst) > 0).then_some(()))
            .await;
    }

    fn sent(&self) -> usize {
        self.sent.load(Ordering::SeqCst)
    }
}

#[async_trait]
impl ToolRunner for Server {
    async fn ready(&self, _: &ToolDefinition, context: &CallContext) -> Result<(), ToolCallError> {
        tokio::select! {
            waited = self.wait(&self.is_there) => waited,
            () = context.cancel.cancelled() => Err(ToolCallError::NotRun("cancelled".to_owned())),
        }
    }

    async fn run(&self, name: &ToolName, _: &str, _: &CallContext) -> Result<ToolOutcome, ToolCallError> {
        if name.tool() == "look" {
            self.looked.fetch_add(1, Ordering::SeqCst);
            return Ok(ToolOutcome { text: "far away".to_owned() });
        }
        self.sent.fetch_add(1, Ordering::SeqCst);
        Ok(ToolOutcome { text: "sent".to_owned() })
    }
}

#[async_trait]
impl ToolProvider for Server {
    fn definitions(&self) -> Vec<ToolDefinition> {
        vec![
            definition("far.send", "Sends it.", Mutation::Mutates),
            definition("far.look", "Looks there.", Mutation::ReadOnly),
        ]
    }

    async fn settled(&self, _: &ToolName) -> Result<(), ToolCallError> {
        self.wait(&self.is_known).await
    }

    fn would_wait(&self, _: &ToolName) -> Option<Duration> {
        (!*self.is_there.borrow()).then_some(LONGEST)
    }
}

struct Stage {
    time: FrozenTime,
    server: Arc<Server>,
    /// What is always there.
    near: Arc<CountingBox>,
    setup: RuntimeSetup,
    _far: Answering,
}

impl Stage {
    async fn set() -> Self {
        let (time, server) = (FrozenTime::hold(), Server::there());
        let near = CountingBox::holding("a red ball");
        let far = FarSide::listen().await.answer_all(|question| match last_words(&question.body) {
            (said, told) if told.is_empty() && said == "look" => {
                called(&[("1", "far__look", "{}"), ("2", "box__look", "{}")])
            }
            (_, told) if told.is_empty() => called(&[("1", "far__send", "{}")]),
            (_, told) => said(&told.join("; ")),
        });
        let (offered, boxed) = (Arc::clone(&server), Arc::clone(&near));
        let setup = RuntimeSetup::new(TestModels::Synapse(far.url.clone()), &time)
            .flow(|flow| flow.drain = DRAIN)
            .tools(move || boxed.tools("Sends it.").add_live(Arc::clone(&offered) as Arc<dyn ToolProvider>));
        Self { time, server, near, setup, _far: far }
    }

    /// A turn whose approved call waits for its server.
    async fn waiting(&self) -> (TestRuntime, EventId) {
        let flow = self.setup.start().await;
        let event = flow.say("a", "go").await;
        flow.reaches(&event, InboxStatus::Waiting).await;
        self.server.is_there.send_replace(false);
        let desk = flow.runtime.approvals();
        let asked = desk.list(true, PageRequest { before: None, limit: 1 }).await.unwrap().rows;
        desk.decide(asked[0].id.clone(), Decision::Approved).await.unwrap();
        self.server.is_waited_for().await;
        assert!(
            flow.replies(&event).await.iter().any(|line| line == TOLD),
            "{:?}",
            flow.replies(&event).await
        );
        (flow, event)
    }

    /// A turn of which one call has run and is answered on record, while its sibling waits for its server.
    async fn halfway(&self) -> (TestRuntime, EventId) {
        let flow = self.setup.start().await;
        self.server.is_there.send_replace(false);
        let event = flow.say("a", "look").await;
        self.server.is_waited_for().await;
        eventually("the other call to be answered", async || {
            let kinds = self.kinds(&flow, &event).await;
            kinds.iter().any(|kind| kind == "tool_answered").then_some(())
        })
        .await;
        assert_eq!((self.near.looked(), self.server.looked.load(Ordering::SeqCst)), (1, 0));
        let kinds = self.kinds(&flow, &event).await;
        assert_eq!(kinds.iter().filter(|kind| *kind == "tool_started").count(), 1, "{kinds:?}");
        (flow, event)
    }

    async fn kinds(&self, flow: &TestRuntime, event: &EventId) -> Vec<String> {
        flow.trace(event).await.steps.iter().map(|step| step.body.kind().to_owned()).collect()
    }

    /// The server comes back: its call runs once, and the other not again.
    async fn both_ran_once(&self, flow: &TestRuntime, event: &EventId) {
        self.server.is_there.send_replace(true);
        flow.reaches(event, InboxStatus::Done).await;
        assert_eq!((self.near.looked(), self.server.looked.load(Ordering::SeqCst)), (1, 1));
        let told = flow.replies(event).await.join("\n");
        assert!(told.contains("a red ball") && told.contains("far away"), "{told}");
        let kinds = self.kinds(flow, event).await;
        assert_eq!(kinds.iter().filter(|kind| *kind == "tool_started").count(), 2, "{kinds:?}");
    }

    /// A stop whose time to finish ends before anything else does.
    async fn stop(&self, flow: TestRuntime) -> TempStore {
        let stopping = tokio::spawn(flow.stop());
        eventually("the stop to end", async || {
            self.time.advance(Duration::from_secs(1)).await;
            stopping.is_finished().then_some(())
        })
        .await;
        stopping.await.unwrap()
    }

    /// Starts again with the server there: the approved call runs once, and nobody hears that it may have run before.
    async fn runs_once(&self, store: TempStore, event: &EventId) {
        self.server.is_there.send_replace(true);
        self.server.is_known.send_replace(true);
        let flow = self.setup.start_on(store).await;
        flow.reaches(event, InboxStatus::Done).await;
        let told = flow.replies(event).await.join("\n");
        assert_eq!(self.server.sent(), 1, "{told}");
        assert!(told.ends_with("\nsent"), "{told}");
        assert!(!told.contains("may have run") && !told.contains("not run:"), "{told}");
        let steps = flow.trace(event).await.steps;
        let starts = steps.iter().filter(|step| step.body.kind() == "tool_started").count();
        assert_eq!(starts, 1);
    }
}

#[tokio::test(start_paused = true)]
async fn an_approved_call_that_a_kill_found_waiting_runs_once_after_the_next_start() {
    let stage = Stage::set().await;
    let (flow, event) = stage.waiting().await;
    let store = flow.crash();
    stage.runs_once(store, &event).await;
}

#[tokio::test(start_paused = true)]
async fn an_approved_call_that_a_stop_found_waiting_runs_once_after_the_next_start() {
    let stage = Stage::set().await;
    let (flow, event) = stage.waiting().await;
    let store = stage.stop(flow).await;
    let parked = store.inbox().find(event.clone()).await.unwrap().unwrap();
    assert_eq!(parked.status, InboxStatus::Pending);
    stage.runs_once(store, &event).await;
}

#[tokio::test(start_paused = true)]
async fn a_stop_does_not_wait_for_a_server_that_is_not_known_yet() {
    let stage = Stage::set().await;
    stage.server.is_known.send_replace(false);
    let flow = stage.setup.start().await;
    let event = flow.say("a", "go").await;
    stage.server.is_waited_for().await;
    let store = stage.stop(flow).await;
    let parked = store.inbox().find(event.clone()).await.unwrap().unwrap();
    assert_eq!((parked.status, parked.attempts), (InboxStatus::Pending, 0));
    stage.server.is_known.send_replace(true);
    let flow = stage.setup.start_on(store).await;
    flow.reaches(&event, InboxStatus::Waiting).await;
}

#[tokio::test(start_paused = true)]
async fn an_approved_call_whose_server_stays_away_is_told_as_not_run_and_never_started() {
    let stage = Stage::set().await;
    let (flow, event) = stage.waiting().await;
    stage.time.advance(LONGEST).await;
    flow.reaches(&event, InboxStatus::Done).await;
    let told = flow.replies(&event).await.join("\n");
    assert!(told.contains("far.send did not run (not run: the server is away)."), "{told}");
    assert_eq!(stage.server.sent(), 0);
    let steps = flow.trace(&event).await.steps;
    let kinds: Vec<&str> = steps.iter().map(|step| step.body.kind()).collect();
    assert!(!kinds.contains(&"tool_started"), "{kinds:?}");
}

#[tokio::test(start_paused = true)]
async fn a_call_runs_at_once_while_its_sibling_waits_for_a_server() {
    let stage = Stage::set().await;
    let (flow, event) = stage.halfway().await;
    stage.both_ran_once(&flow, &event).await;
}

#[tokio::test(start_paused = true)]
async fn a_kill_while_a_sibling_waits_repeats_no_call_that_ran() {
    let stage = Stage::set().await;
    let (flow, event) = stage.halfway().await;
    let store = flow.crash();
    stage.server.is_there.send_replace(true);
    let flow = stage.setup.start_on(store).await;
    stage.both_ran_once(&flow, &event).await;
}

#[tokio::test(start_paused = true)]
async fn a_stop_while_a_sibling_waits_repeats_no_call_that_ran() {
    let stage = Stage::set().await;
    let (flow, event) = stage.halfway().await;
    let store = stage.stop(flow).await;
    let parked = store.inbox().find(event.clone()).await.unwrap().unwrap();
    assert_eq!(parked.status, InboxStatus::Pending);
    stage.server.is_there.send_replace(true);
    let flow = stage.setup.start_on(store).await;
    stage.both_ran_once(&flow, &event).await;
}

#[tokio::test(start_paused = true)]
async fn a_sibling_whose_server_stays_away_is_told_as_not_run() {
    let stage = Stage::set().await;
    let (flow, event) = stage.halfway().await;
    stage.time.advance(LONGEST).await;
    flow.reaches(&event, InboxStatus::Done).await;
    let told = flow.replies(&event).await.join("\n");
    assert!(told.contains("a red ball") && told.contains("the server is away"), "{told}");
    assert_eq!(stage.server.looked.load(Ordering::SeqCst), 0);
}
