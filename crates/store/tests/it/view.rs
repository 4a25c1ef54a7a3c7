//! The views that seed 001 names: their columns, the states of the bus, and the channel of each line.

use cortex_store::{FinishedTurn, HistoryFilter, Store, Suspension, TurnEnd};
use cortex_testkit::{TempStore, new_event, new_reply, topic};
use cortex_types::{Event, Millis, NewEvent, TopicRef};
use rusqlite::Connection;

const NOW: Millis = Millis(1_000);

/// Answers a new event with one message to each of `to`.
async fn answer(store: &Store, new: NewEvent, to: &[TopicRef]) {
    let event = claimed(store, new).await;
    let end = TurnEnd::Answered(Box::new(FinishedTurn {
        content: format!("about {}", event.text),
        replies: to.iter().map(|topic| new_reply(topic, "dinner")).collect(),
        ..FinishedTurn::default()
    }));
    store.turns().finish_turn(&event, end, Vec::new(), NOW).await.unwrap();
}

async fn claimed(store: &Store, new: NewEvent) -> Event {
    store.inbox().accept(new, NOW).await.unwrap();
    store.inbox().claim_next(1, NOW).await.unwrap().whole.remove(0).event
}

#[test]
fn the_views_have_the_columns_of_their_seed() {
    let store = TempStore::create();
    let look = Connection::open(store.path()).unwrap();
    for (view, columns) in [
        (
            "cortex_bus",
            "id, envelope, state, priority, enqueued_at, processed_at, attempts, error, checkpoint_id",
        ),
        ("cortex_session", "id, envelope_id, role, channel, sender_id, content, timestamp, metadata"),
        ("cortex_channel_states", "channel, last_message_at, unread_count, summary, layer"),
        (
            "cortex_pending_ops",
            "id, type, description, dispatched_at, expected_channel, status, completed_at, result, gardened_at, \
             acknowledged_at",
        ),
        ("cortex_hot_memory", "id, fact_text, created_at, last_accessed_at, hit_count"),
        ("cortex_cold_memory", "rowid, fact_text, created_at, archived_at"),
        ("cortex_cold_memory_vec", "rowid, embedding"),
        ("cortex_checkpoints", "id, created_at, session_snapshot, channel_states, pending_ops"),
    ] {
        let statement = look.prepare(&format!("SELECT * FROM {view}")).unwrap();
        assert_eq!(statement.column_names().collect::<Vec<_>>().join(", "), columns, "{view}");
    }
}

#[tokio::test]
async fn the_bus_shows_the_state_of_each_event_in_the_words_of_the_seed() {
    let store = TempStore::create();
    answer(&store, new_event(&topic("a", "completed"), "x"), &[]).await;
    let failed = claimed(&store, new_event(&topic("a", "failed"), "x")).await;
    let end = TurnEnd::Failed { reason: "no model".to_owned(), replies: Vec::new() };
    store.turns().finish_turn(&failed, end, Vec::new(), NOW).await.unwrap();
    let waiting = claimed(&store, new_event(&topic("a", "waiting"), "x")).await;
    store.approvals().suspend(&waiting, Suspension::default(), NOW).await.unwrap();
    claimed(&store, new_event(&topic("a", "processing"), "x")).await;
    store.inbox().accept(new_event(&topic("a", "pending"), "x"), NOW).await.unwrap();
    let look = Connection::open(store.path()).unwrap();
    let mut statement = look
        .prepare(
            "SELECT json_extract(envelope, '$.topic'), state, processed_at IS NOT NULL, error, attempts
             FROM cortex_bus ORDER BY 1",
        )
        .unwrap();
    let rows: Vec<(String, String, bool, Option<String>, u32)> = statement
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?)))
        .unwrap()
        .collect::<Result<_, _>>()
        .unwrap();
    let row = |topic: &str, state: &str, ended, error: Option<&str>, attempts| {
        (topic.to_owned(), state.to_owned(), ended, error.map(str::to_owned), attempts)
    };
    assert_eq!(
        rows,
        [
            row("completed", "completed", true, None, 1),
            row("failed", "failed", true, Some("no model"), 1),
            row("pending", "pending", false, None, 0),
            row("processing", "processing", false, None, 1),
            row("waiting", "processing", false, None, 0),
        ]
    );
}

#[tokio::test]
async fn a_line_has_the_channel_of_the_topic_it_was_said_in() {
    let store = TempStore::create();
    let (webchat, whatsapp) = (topic("webchat", "t"), topic("whatsapp", "u"));
    answer(&store, new_event(&webchat, "tell them"), std::slice::from_ref(&whatsapp)).await;
    let tick = NewEvent { channel: Some("cron".to_owned()), ..new_event(&webchat, "tick") };
    answer(&store, tick, std::slice::from_ref(&whatsapp)).await;
    let look = Connection::open(store.path()).unwrap();
    let mut statement = look.prepare("SELECT channel, content FROM cortex_session ORDER BY id").unwrap();
    let rows: Vec<String> = statement
        .query_map([], |row| Ok(format!("{}: {}", row.get::<_, String>(0)?, row.get::<_, String>(1)?)))
        .unwrap()
        .collect::<Result<_, _>>()
        .unwrap();
    assert_eq!(
        rows,
        [
            "webchat: tell them",
            "webchat: about tell them",
            "whatsapp: dinner",
            "cron: tick",
            "cron: about tick",
            "whatsapp: dinner",
        ]
    );
    for (channel, lines) in [
        ("webchat", vec!["tell them", "about tell them"]),
        ("whatsapp", vec!["dinner", "dinner"]),
        ("cron", vec!["tick", "about tick"]),
    ] {
        let filter = HistoryFilter { channel: Some(channel.to_owned()), ..HistoryFilter::default() };
        let found = store.history().newest(filter, 10).await.unwrap();
        assert!(found.iter().all(|line| line.channel == channel), "{found:?}");
        assert_eq!(found.into_iter().map(|line| line.content).collect::<Vec<_>>(), lines);
    }
}
