//! Summaries stand for turns and lose none of them.

use cortex_store::{FactsInPrompt, NewSummary, OpsInPrompt, SessionQuery, SessionView, Store};
use cortex_testkit::{TempStore, answered, new_event, topic};
use cortex_types::{Accounts, Millis, TopicRef};

const NOW: Millis = Millis(1_000);

async fn say(store: &Store, topic: &TopicRef, text: &str) {
    store.inbox().accept(new_event(topic, text), NOW).await.unwrap();
    let claimed = store.inbox().claim_next(1, NOW).await.unwrap().whole.remove(0);
    let end = answered(&format!("re {text}"), Vec::new());
    store.turns().finish_turn(&claimed.event, end, Vec::new(), NOW).await.unwrap();
}

async fn seen(store: &Store, topic: &TopicRef) -> SessionView {
    let query = SessionQuery {
        topic: topic.clone(),
        lines: 100,
        accounts: Accounts::Everyone,
        but_event: 0,
        background_since: Millis(0),
        background_lines: 32,
        facts: FactsInPrompt::None,
        ops: OpsInPrompt::Everybodys,
    };
    store.session(query).await.unwrap()
}

fn summary(first_turn: i64, last_turn: i64, content: &str) -> NewSummary {
    NewSummary { first_turn, last_turn, content: content.to_owned(), tokens: 2, untrusted: false }
}

#[tokio::test]
async fn a_summary_stands_for_its_turns_and_taking_it_back_restores_them_all() {
    let store = TempStore::create();
    let chat = topic("a", "t");
    for text in ["one", "two", "three"] {
        say(&store, &chat, text).await;
    }
    let before = seen(&store, &chat).await;
    assert_eq!(store.summaries().add(chat.clone(), summary(1, 2, "one"), NOW).await, Ok(true));
    let once = seen(&store, &chat).await;
    assert_eq!(once.summary.as_ref().map(|summary| summary.content.as_str()), Some("one"));
    assert_eq!(once.history, before.history[2..]);
    assert_eq!(store.summaries().add(chat.clone(), summary(1, 4, "one, two"), NOW).await, Ok(true));
    assert_eq!(seen(&store, &chat).await.history, before.history[4..]);
    assert_eq!(store.turns().history(chat.clone(), 100).await.unwrap(), before.history, "the turns stay");
    let undone = store.summaries().undo(chat.clone(), NOW).await.unwrap().unwrap();
    assert_eq!(undone.content, "one, two");
    assert_eq!(seen(&store, &chat).await, once);
    store.summaries().undo(chat.clone(), NOW).await.unwrap();
    assert_eq!(seen(&store, &chat).await, before);
    assert_eq!(store.summaries().undo(chat, NOW).await, Ok(None));
}

#[tokio::test]
async fn a_compaction_that_is_repeated_doubles_nothing() {
    let store = TempStore::create();
    let chat = topic("a", "t");
    say(&store, &chat, "one").await;
    assert_eq!(store.summaries().add(chat.clone(), summary(1, 2, "one"), NOW).await, Ok(true));
    assert_eq!(store.summaries().add(chat.clone(), summary(1, 2, "one again"), NOW).await, Ok(false));
    assert_eq!(store.summaries().add(topic("a", "unknown"), summary(1, 2, "x"), NOW).await, Ok(false));
    let uncovered = store.summaries().uncovered(chat, 10).await.unwrap();
    assert_eq!((uncovered.summary.unwrap().content.as_str(), uncovered.lines.len()), ("one", 0));
}
