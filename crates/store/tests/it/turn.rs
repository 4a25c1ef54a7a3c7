//! A turn ends in one transaction or not at all, and leaves history in its own topic only.

use cortex_store::{Claimed, FinishedTurn, HistoryRow, NoteKind, PageRequest, StoreError, TurnEnd};
use cortex_testkit::{TempStore, answered, new_event, new_reply, topic};
use cortex_types::{CallOutcome, InboxStatus, Millis, ModelCall, Step, StepBody, TokenUsage, TopicRef};

const NOW: Millis = Millis(1_000);

async fn claim(store: &TempStore, topic: &TopicRef, text: &str) -> Claimed {
    store.inbox().accept(new_event(topic, text), NOW).await.unwrap();
    let mut claimed = store.inbox().claim_next(10, NOW).await.unwrap().whole;
    assert_eq!(claimed.len(), 1, "{claimed:?}");
    claimed.remove(0)
}

fn tool_step(number: u32) -> Step {
    let body = StepBody::ToolAnswered {
        call_id: format!("call {number}"),
        name: "clock.now".to_owned(),
        text: "noon".to_owned(),
        ending: cortex_types::ToolEnding::Done,
    };
    Step { number, at: NOW, body }
}

fn call(outcome: CallOutcome) -> ModelCall {
    ModelCall {
        profile: "main".to_owned(),
        provider: "offline".to_owned(),
        model: "offline".to_owned(),
        started_at: NOW,
        latency_ms: 3,
        usage: TokenUsage { input: 5, output: 7, cached: 0 },
        cost_micros: 11,
        outcome,
    }
}

fn lines(history: &[HistoryRow]) -> Vec<(&str, &str)> {
    history.iter().map(|row| (row.role.as_str(), row.content.as_str())).collect()
}

#[tokio::test]
async fn a_finished_turn_leaves_history_replies_steps_and_a_done_event_together() {
    let store = TempStore::create();
    let chat = topic("telegram", "chat");
    let claimed = claim(&store, &chat, "what time is it?").await;
    store
        .turns()
        .record_steps(&claimed.event, vec![tool_step(0)], Vec::new(), Vec::new(), cortex_types::Millis(1))
        .await
        .unwrap();
    let replies = vec![new_reply(&chat, "noon"), new_reply(&chat, "or a little later")];
    let end = TurnEnd::Answered(Box::new(FinishedTurn {
        last_step: Some(tool_step(1)),
        content: "noon, or a little later".to_owned(),
        replies: replies.clone(),
        ..FinishedTurn::default()
    }));
    let calls = vec![call(CallOutcome::Answered)];
    store.turns().finish_turn(&claimed.event, end, calls, Millis(2_000)).await.unwrap();

    let trace = store.trace(claimed.event.id.clone()).await.unwrap().unwrap();
    assert_eq!((trace.event.status, trace.event.updated_at), (InboxStatus::Done, Millis(2_000)));
    assert_eq!(trace.claimed_at, Some(NOW));
    assert_eq!(trace.steps, [tool_step(0), tool_step(1)]);
    let sent: Vec<_> = trace.replies.iter().map(|row| (row.id.clone(), row.text.clone())).collect();
    assert_eq!(sent, replies.into_iter().map(|reply| (reply.id, reply.text)).collect::<Vec<_>>());
    let history = store.turns().history(chat, 10).await.unwrap();
    assert_eq!(lines(&history), [("user", "what time is it?"), ("assistant", "noon, or a little later")]);
    assert_eq!(store.tokens_since(Millis(0)).await, Ok(12));
}

#[tokio::test]
async fn an_end_that_cannot_be_kept_whole_is_not_kept_at_all() {
    let store = TempStore::create();
    let chat = topic("telegram", "chat");
    let claimed = claim(&store, &chat, "hello").await;
    let twice = new_reply(&chat, "hi");
    // The second reply has the id of the first: the last statement of the end fails.
    let broken = answered("hi", vec![twice.clone(), twice.clone()]);
    let refused =
        store.turns().finish_turn(&claimed.event, broken, vec![call(CallOutcome::Answered)], NOW).await;
    assert!(matches!(refused, Err(StoreError::Fault(_))), "{refused:?}");

    let trace = store.trace(claimed.event.id.clone()).await.unwrap().unwrap();
    assert_eq!(trace.event.status, InboxStatus::Processing);
    assert_eq!((trace.replies.len(), trace.steps.len()), (0, 0));
    assert_eq!(store.turns().history(chat.clone(), 10).await, Ok(Vec::new()));
    assert_eq!(store.tokens_since(Millis(0)).await, Ok(0));

    store.turns().finish_turn(&claimed.event, answered("hi", vec![twice]), Vec::new(), NOW).await.unwrap();
    assert_eq!(store.turns().history(chat, 10).await.unwrap().len(), 2);
}

#[tokio::test]
async fn a_turn_ends_once() {
    let store = TempStore::create();
    let chat = topic("telegram", "chat");
    let claimed = claim(&store, &chat, "hello").await;
    let end = || answered("hi", vec![new_reply(&chat, "hi")]);
    store.turns().finish_turn(&claimed.event, end(), Vec::new(), NOW).await.unwrap();
    let later_ends = [
        end(),
        TurnEnd::Failed { reason: "late".to_owned(), replies: vec![new_reply(&chat, "sorry")] },
        TurnEnd::RetryAt { due_at: NOW, reason: "late".to_owned() },
        TurnEnd::Parked,
    ];
    for later in later_ends {
        let refused = store.turns().finish_turn(&claimed.event, later, Vec::new(), NOW).await;
        assert!(matches!(refused, Err(StoreError::Fault(_))), "{refused:?}");
    }
    let event = store.inbox().find(claimed.event.id).await.unwrap().unwrap();
    assert_eq!((event.status, event.attempts), (InboxStatus::Done, 1));
    assert_eq!(store.turns().history(chat, 10).await.unwrap().len(), 2);
    assert_eq!(store.outbox().list(None, None, PageRequest::newest(10)).await.unwrap().rows.len(), 1);
}

#[tokio::test]
async fn an_event_that_was_never_claimed_cannot_be_finished() {
    let store = TempStore::create();
    let chat = topic("telegram", "chat");
    let running = claim(&store, &chat, "first").await;
    let waiting = new_event(&chat, "second");
    store.inbox().accept(waiting.clone(), NOW).await.unwrap();
    let waiting = store.inbox().find(waiting.id).await.unwrap().unwrap();
    let refused = store.turns().finish_turn(&waiting, answered("hi", Vec::new()), Vec::new(), NOW).await;
    assert!(matches!(refused, Err(StoreError::Fault(_))), "{refused:?}");
    store.turns().finish_turn(&running.event, answered("hi", Vec::new()), Vec::new(), NOW).await.unwrap();
}

#[tokio::test]
async fn history_is_the_newest_lines_oldest_first() {
    let store = TempStore::create();
    let chat = topic("telegram", "chat");
    for number in 0..5 {
        let claimed = claim(&store, &chat, &format!("question {number}")).await;
        let end = answered(&format!("answer {number}"), Vec::new());
        store.turns().finish_turn(&claimed.event, end, Vec::new(), NOW).await.unwrap();
    }
    let history = store.turns().history(chat.clone(), 3).await.unwrap();
    assert_eq!(
        lines(&history),
        [("assistant", "answer 3"), ("user", "question 4"), ("assistant", "answer 4")]
    );
    assert_eq!(store.turns().history(chat, 100).await.unwrap().len(), 10);
}

#[tokio::test]
async fn history_never_crosses_topics() {
    let store = TempStore::create();
    let topics = [topic("telegram", "chat"), topic("telegram", "other"), topic("slack", "chat")];
    for topic in &topics {
        let claimed = claim(&store, topic, &format!("{topic:?}")).await;
        store.turns().finish_turn(&claimed.event, answered("ok", Vec::new()), Vec::new(), NOW).await.unwrap();
    }
    for topic in topics {
        let asked = format!("{topic:?}");
        let history = store.turns().history(topic, 100).await.unwrap();
        assert_eq!(lines(&history), [("user", asked.as_str()), ("assistant", "ok")]);
    }
    assert_eq!(store.turns().history(topic("slack", "other"), 100).await, Ok(Vec::new()));
}

#[tokio::test]
async fn the_topic_that_was_used_last_comes_first_however_old_it_is() {
    let store = TempStore::create();
    let [old, new, unused] = ["old", "new", "unused"].map(|key| topic("telegram", key));
    for topic in [&old, &new, &old] {
        let claimed = claim(&store, topic, "hi").await;
        store.turns().finish_turn(&claimed.event, answered("ok", Vec::new()), Vec::new(), NOW).await.unwrap();
    }
    store.inbox().accept(new_event(&unused, "waits"), NOW).await.unwrap();
    assert_eq!(store.history().topics_lately(9).await.unwrap(), [old.clone(), new, unused]);
    assert_eq!(store.history().topics_lately(1).await.unwrap(), [old]);
}

#[tokio::test]
async fn a_failed_turn_keeps_its_reason_and_tells_the_user_without_history() {
    let store = TempStore::create();
    let chat = topic("telegram", "chat");
    let claimed = claim(&store, &chat, "hello").await;
    let end = TurnEnd::Failed { reason: "x".repeat(5_000), replies: vec![new_reply(&chat, "sorry")] };
    let failed_call = call(CallOutcome::Failed { error: "503".to_owned() });
    store.turns().finish_turn(&claimed.event, end, vec![failed_call], NOW).await.unwrap();
    let trace = store.trace(claimed.event.id).await.unwrap().unwrap();
    assert_eq!(trace.event.status, InboxStatus::Failed);
    assert_eq!(trace.event.error.map(|error| error.len()), Some(1_000));
    assert_eq!(trace.replies.len(), 1);
    assert_eq!(store.turns().history(chat, 10).await, Ok(Vec::new()));
}

#[tokio::test]
async fn a_planned_retry_is_noted_on_the_way_of_the_event() {
    let store = TempStore::create();
    let claimed = claim(&store, &topic("telegram", "chat"), "hello").await;
    let retry = TurnEnd::RetryAt { due_at: Millis(5_000), reason: "429".to_owned() };
    store.turns().finish_turn(&claimed.event, retry, Vec::new(), NOW).await.unwrap();
    let trace = store.trace(claimed.event.id).await.unwrap().unwrap();
    assert_eq!(trace.event.status, InboxStatus::Pending);
    assert_eq!(trace.notes.len(), 1);
    assert_eq!((trace.notes[0].kind, trace.notes[0].detail.as_str()), (NoteKind::RetryPlanned, "429"));
}
