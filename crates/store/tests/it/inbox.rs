//! The inbox takes an event once and says so; what a person can see of it and ask for again.

use cortex_store::{PageRequest, RetryRefused, TurnEnd};
use cortex_testkit::{TempStore, answered, new_event, new_reply, sent_again, topic};
use cortex_types::{AcceptedEvent, Decision, EventId, GivenAnswer, InboxStatus, Millis, NewEvent, Standing};

const NOW: Millis = Millis(1_000);

#[tokio::test]
async fn an_accepted_event_is_kept_as_it_came() {
    let store = TempStore::create();
    let new = NewEvent {
        metadata_json: Some(r#"{"priority":"normal"}"#.to_owned()),
        standing: Standing::Key,
        answer: Some(GivenAnswer { token_sha256: [7; 32], decision: Some(Decision::Denied) }),
        ..new_event(&topic("telegram", "chat"), "hello\nworld 🌍")
    };
    assert_eq!(store.inbox().accept(new.clone(), NOW).await, Ok(AcceptedEvent::Queued(new.id.clone())));

    let kept = store.inbox().find(new.id.clone()).await.unwrap().unwrap();
    assert_eq!(kept.status, InboxStatus::Pending);
    assert_eq!((kept.attempts, kept.error, kept.created_at, kept.updated_at), (0, None, NOW, NOW));
    let as_kept = NewEvent {
        id: kept.id,
        source: kept.topic.source,
        topic_key: kept.topic.topic_key,
        external_message_id: kept.external_message_id,
        idempotency_key: kept.idempotency_key,
        user_id: kept.user_id,
        text: kept.text,
        occurred_at: kept.occurred_at,
        metadata_json: kept.metadata_json,
        priority: kept.priority,
        channel: None,
        relationship: None,
        standing: kept.standing,
        answer: kept.answer,
    };
    assert_eq!(kept.channel, "telegram");
    assert_eq!(as_kept, new);
}

#[tokio::test]
async fn the_same_event_again_is_the_first_one() {
    let store = TempStore::create();
    let first = new_event(&topic("telegram", "chat"), "hello");
    store.inbox().accept(first.clone(), NOW).await.unwrap();
    assert_eq!(
        store.inbox().accept(sent_again(&first), NOW).await,
        Ok(AcceptedEvent::Duplicate { first: first.id.clone(), same_body: true })
    );
    assert_eq!(store.inbox().counts().await.unwrap().pending, 1);
    assert_eq!(store.audit_of(first.id.to_string()).await, Ok(Vec::new()));
}

#[tokio::test]
async fn a_duplicate_with_another_body_changes_nothing_and_leaves_an_audit_line() {
    let store = TempStore::create();
    let first = new_event(&topic("telegram", "chat"), "hello");
    store.inbox().accept(first.clone(), NOW).await.unwrap();
    let others = [
        NewEvent { text: "goodbye".to_owned(), ..sent_again(&first) },
        NewEvent { user_id: "eve".to_owned(), ..sent_again(&first) },
        NewEvent { metadata_json: Some("{}".to_owned()), ..sent_again(&first) },
        NewEvent { topic_key: "elsewhere".to_owned(), ..sent_again(&first) },
    ];
    for (number, other) in others.into_iter().enumerate() {
        assert_eq!(
            store.inbox().accept(other, Millis(2_000 + number as i64)).await,
            Ok(AcceptedEvent::Duplicate { first: first.id.clone(), same_body: false })
        );
        let audit = store.audit_of(first.id.to_string()).await.unwrap();
        assert_eq!(audit.len(), 1, "one line, however often it comes");
        assert_eq!((audit[0].what.as_str(), audit[0].at), ("payload_mismatch", Millis(2_000)));
    }
    let kept = store.inbox().find(first.id).await.unwrap().unwrap();
    assert_eq!((kept.text, kept.user_id, kept.metadata_json), (first.text, first.user_id, None));
    assert_eq!(store.inbox().counts().await.unwrap().pending, 1);
}

#[tokio::test]
async fn one_external_id_from_two_sources_is_two_events() {
    let store = TempStore::create();
    let first = new_event(&topic("telegram", "chat"), "hello");
    let other = NewEvent { source: "slack".to_owned(), ..sent_again(&first) };
    store.inbox().accept(first, NOW).await.unwrap();
    assert_eq!(store.inbox().accept(other.clone(), NOW).await, Ok(AcceptedEvent::Queued(other.id)));
}

#[tokio::test]
async fn fifty_identical_events_at_once_are_one() {
    let store = TempStore::create();
    let first = new_event(&topic("telegram", "chat"), "hello");
    let mut posts = tokio::task::JoinSet::new();
    for _ in 0..50 {
        let (store, again) = (store.clone(), sent_again(&first));
        posts.spawn(async move { store.inbox().accept(again, NOW).await.unwrap() });
    }
    let answers = posts.join_all().await;
    let queued: Vec<EventId> = answers
        .iter()
        .filter_map(|answer| match answer {
            AcceptedEvent::Queued(id) => Some(id.clone()),
            AcceptedEvent::Duplicate { .. } | AcceptedEvent::ChannelOff | AcceptedEvent::NameRefused(_) => {
                None
            }
        })
        .collect();
    assert_eq!(queued.len(), 1, "{answers:?}");
    let duplicate = AcceptedEvent::Duplicate { first: queued[0].clone(), same_body: true };
    assert_eq!(answers.iter().filter(|answer| **answer == duplicate).count(), 49, "{answers:?}");
}

#[tokio::test]
async fn only_a_failed_event_can_be_retried_by_a_person() {
    let store = TempStore::create();
    let chat = topic("telegram", "chat");
    let event = new_event(&chat, "hello");
    let unknown = new_event(&chat, "never sent").id;
    assert_eq!(store.inbox().retry_failed(unknown, NOW).await, Ok(Err(RetryRefused::NotFound)));

    store.inbox().accept(event.clone(), NOW).await.unwrap();
    let retry = async || store.inbox().retry_failed(event.id.clone(), NOW).await;
    assert_eq!(retry().await, Ok(Err(RetryRefused::Is(InboxStatus::Pending))));
    let claimed = store.inbox().claim_next(1, NOW).await.unwrap().whole.remove(0);
    assert_eq!(retry().await, Ok(Err(RetryRefused::Is(InboxStatus::Processing))));
    let failed = TurnEnd::Failed { reason: "no model".to_owned(), replies: vec![new_reply(&chat, "sorry")] };
    store.turns().finish_turn(&claimed.event, failed, Vec::new(), NOW).await.unwrap();
    let seen = store.inbox().find(event.id.clone()).await.unwrap().unwrap();
    assert_eq!((seen.status, seen.error.as_deref()), (InboxStatus::Failed, Some("no model")));

    assert_eq!(retry().await, Ok(Ok(())));
    let again = store.inbox().claim_next(1, NOW).await.unwrap().whole.remove(0);
    assert_eq!(
        (again.event.id.clone(), again.event.attempts, again.event.error.clone()),
        (event.id.clone(), 1, None)
    );
    store.turns().finish_turn(&again.event, answered("hi", Vec::new()), Vec::new(), NOW).await.unwrap();
    assert_eq!(retry().await, Ok(Err(RetryRefused::Is(InboxStatus::Done))));
}

#[tokio::test]
async fn a_listing_pages_from_the_newest_to_the_oldest() {
    let store = TempStore::create();
    let mut ids = Vec::new();
    for number in 0..7 {
        let event = new_event(&topic("telegram", &format!("chat {number}")), "hello");
        ids.push(event.id.clone());
        store.inbox().accept(event, NOW).await.unwrap();
    }
    let claimed = store.inbox().claim_next(2, NOW).await.unwrap().whole;
    assert_eq!(claimed.len(), 2);

    let mut seen = Vec::new();
    let mut page = PageRequest::newest(3);
    loop {
        let found = store.inbox().list(None, page).await.unwrap();
        seen.extend(found.rows.into_iter().map(|event| event.id));
        let Some(before) = found.next_before else { break };
        page.before = Some(before);
    }
    seen.reverse();
    assert_eq!(seen, ids);
    let pending = store.inbox().list(Some(InboxStatus::Pending), PageRequest::newest(100)).await.unwrap();
    assert_eq!(pending.rows.len(), 5);
    let counts = store.inbox().counts().await.unwrap();
    assert_eq!((counts.pending, counts.processing, counts.done), (5, 2, 0));
}
