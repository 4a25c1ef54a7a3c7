//! Ops by their desk: a result comes back as an event of the conversation that asked, also after a crash.

use crate::far_side::FarSide;
use cortex_runtime::{Dispatch, Runtime};
use cortex_testkit::{FrozenTime, RuntimeSetup, TestModels, TestRuntime, topic};
use cortex_types::{Event, InboxStatus, OpId, OpStatus};

fn dispatch(run_id: Option<&str>) -> Dispatch {
    Dispatch {
        kind: "router_job".to_owned(),
        description: "find flights".to_owned(),
        topic: topic("test", "trip"),
        user_id: "ada".to_owned(),
        event: None,
        expected_channel: None,
        run_id: run_id.map(str::to_owned),
    }
}

/// The event that the end of this op led to.
async fn event_of(flow: &TestRuntime, op: &OpId) -> Event {
    let page = flow.store.inbox().list(None, cortex_store::PageRequest::newest(50)).await.unwrap();
    let external_id = format!("op:{op}");
    page.rows.into_iter().find(|event| event.external_message_id == external_id).unwrap()
}

async fn lines(runtime: &Runtime) -> Vec<String> {
    runtime.ops().shown(None).await.unwrap().lines
}

#[tokio::test(start_paused = true)]
async fn a_result_is_told_in_the_conversation_that_asked() {
    let time = FrozenTime::hold();
    let mut far = FarSide::listen().await;
    let flow = RuntimeSetup::new(TestModels::Synapse(far.url.clone()), &time).start().await;
    let op = flow.runtime.ops().add(dispatch(None)).await.unwrap();
    assert!(lines(&flow.runtime).await[0].starts_with(&format!("[PENDING] {op} router_job: find flights")));
    flow.runtime.ops().complete(op.clone(), "LH 400".to_owned()).await.unwrap();
    let event = event_of(&flow, &op).await;
    assert_eq!((event.topic.clone(), event.user_id.as_str()), (topic("test", "trip"), "ada"));
    let question = far.question().await;
    assert!(question.text().contains("LH 400"), "{}", question.text());
    question.say("Lufthansa 400 it is.");
    flow.reaches(&event.id, InboxStatus::Done).await;
    assert_eq!(flow.replies(&event.id).await, ["Lufthansa 400 it is."]);
}

#[tokio::test(start_paused = true)]
async fn an_op_of_the_process_before_is_failed_at_the_start_unless_a_durable_run_owns_it() {
    let time = FrozenTime::hold();
    let far = FarSide::listen().await;
    let setup = RuntimeSetup::new(TestModels::Synapse(far.url.clone()), &time);
    let flow = setup.start().await;
    let orphan = flow.runtime.ops().add(dispatch(None)).await.unwrap();
    let owned = flow.runtime.ops().add(dispatch(Some("run_1"))).await.unwrap();
    let flow = setup.start_on(flow.crash()).await;
    assert_eq!(flow.boot.orphaned, 1);
    let found = flow.runtime.ops().find(orphan.clone()).await.unwrap().unwrap();
    assert_eq!(found.status, OpStatus::Failed);
    assert_eq!(found.result.as_deref(), Some("Error: orphaned from prior session (startup cleanup)"));
    let shown = lines(&flow.runtime).await;
    assert!(shown[0].starts_with(&format!("[FAILED] {orphan} ")), "{shown:?}");
    assert!(shown[0].ends_with("Inform the user that this task failed."), "{shown:?}");
    assert!(shown[1].starts_with(&format!("[PENDING] {owned} ")), "{shown:?}");
    assert_eq!(event_of(&flow, &orphan).await.topic, topic("test", "trip"));
    let flow = setup.start_on(flow.crash()).await;
    assert_eq!(flow.boot.orphaned, 0, "an orphan is failed once");
}

#[tokio::test(start_paused = true)]
async fn an_end_is_shown_once_and_one_that_comes_while_a_turn_runs_is_not_lost() {
    let time = FrozenTime::hold();
    let mut far = FarSide::listen().await;
    let flow = RuntimeSetup::new(TestModels::Synapse(far.url.clone()), &time).start().await;
    let first = flow.runtime.ops().add(dispatch(None)).await.unwrap();
    let second = flow.runtime.ops().add(dispatch(None)).await.unwrap();
    let id = flow.say("other", "hello").await;
    let running = far.question().await;
    assert!(running.system().contains(&format!("[PENDING] {first} ")), "{}", running.system());
    // Both end while the turn runs, so it has seen neither end.
    flow.runtime.ops().complete(first.clone(), "LH 400".to_owned()).await.unwrap();
    flow.runtime.ops().fail(second.clone(), "no network".to_owned()).await.unwrap();
    running.say("Hello.");
    flow.reaches(&id, InboxStatus::Done).await;
    let question = far.question().await;
    let seen = question.system().to_owned();
    assert!(seen.contains(&format!("[NEW RESULT] {first} router_job: find flights: LH 400")), "{seen}");
    let failed = format!(
        "[FAILED] {second} router_job: find flights: Error: no network. Inform the user that this task failed."
    );
    assert!(seen.contains(&failed), "{seen}");
    question.say("Both told.");
    // The event of the second end follows in the same topic; its prompt no longer shows what was read.
    let question = far.question().await;
    assert!(!question.system().contains("Active Operations"), "{}", question.system());
    question.say("Told.");
    let told = event_of(&flow, &second).await;
    flow.reaches(&told.id, InboxStatus::Done).await;
    assert_eq!(lines(&flow.runtime).await, Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_turn_whose_model_fails_has_read_nothing() {
    let time = FrozenTime::hold();
    let mut far = FarSide::listen().await;
    let flow = RuntimeSetup::new(TestModels::Synapse(far.url.clone()), &time).start().await;
    let op = flow.runtime.ops().add(dispatch(None)).await.unwrap();
    flow.runtime.ops().complete(op.clone(), "LH 400".to_owned()).await.unwrap();
    far.question().await.answer("HTTP/1.1 400 Bad Request\r\ncontent-length: 2\r\n\r\n{}".to_owned());
    let event = event_of(&flow, &op).await;
    flow.reaches(&event.id, InboxStatus::Failed).await;
    assert_eq!(lines(&flow.runtime).await.len(), 1, "it is shown again");
}
