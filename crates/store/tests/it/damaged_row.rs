//! One row that cannot be read: it is set aside by itself, and nothing beside it waits, fails or is lost.

use crate::mode::set_modes;
use crate::recovery::{claim_one, damage, recover, replies_in};
use cortex_store::{
    ConnectorKey, ConnectorSession, KeyRow, PromptScopes, Recovered, SessionOpener, StoreError, Stranded,
    TurnEnd,
};
use cortex_testkit::{TempStore, answered, new_event, new_reply, topic};
use cortex_types::{Accounts, ChannelMode, Event, InboxStatus, Millis};
use rusqlite::Connection;
use std::collections::BTreeSet;

const NOW: Millis = Millis(1_000);

/// Makes a number that is never missing missing: in a row with a zero or a one it takes a single bit.
pub(crate) fn lose(store: &TempStore, table: &str, column: &str, condition: &str) {
    let connection = || Connection::open(store.path()).unwrap();
    let name = format!("main.{table}");
    let schema = |from: &str, to: &str| {
        let connection = connection();
        connection.execute_batch("PRAGMA writable_schema = 1").unwrap();
        let sql = "UPDATE sqlite_schema SET sql = replace(sql, ?1, ?2) WHERE type = 'table' AND 'main.' || name = ?3";
        assert_eq!(connection.execute(sql, [from, to, &name]).unwrap(), 1);
    };
    // Another connection reads the schema anew; the store's own goes on with what it knows.
    let (strict, loose) = (format!("{column} INTEGER NOT NULL"), format!("{column} INTEGER    NULL"));
    schema(&strict, &loose);
    let lost = connection().execute(&format!("UPDATE {table} SET {column} = NULL WHERE {condition}"), []);
    schema(&loose, &strict);
    assert_eq!(lost.unwrap(), 1, "{table}.{column}");
}

fn notice(event: &Event) -> cortex_types::NewReply {
    new_reply(&event.topic, "I could not answer this.")
}

async fn look(store: &TempStore, running: &[i64]) -> Stranded {
    store.watchdog().look(running.iter().copied().collect::<BTreeSet<_>>()).await.unwrap()
}

#[tokio::test]
async fn an_event_that_cannot_be_read_harms_none_before_it_and_none_behind_it() {
    let unreadable = [
        "channel = CAST(x'ff' AS TEXT)",
        "channel = CAST(x'00' AS BLOB)",
        "source = CAST(x'ff' AS TEXT)",
        "priority = 'soon'",
    ];
    for change in unreadable {
        for modes in [&[][..], &[("elsewhere", ChannelMode::Off)]] {
            let mut store = TempStore::create();
            set_modes(&store, modes).await;
            let chat = topic("telegram", "chat");
            let damaged = new_event(&chat, "damaged");
            store.inbox().accept(new_event(&chat, "first"), NOW).await.unwrap();
            store.inbox().accept(damaged.clone(), NOW).await.unwrap();
            store.inbox().accept(new_event(&chat, "last"), NOW).await.unwrap();
            let first = claim_one(&store, NOW).await;
            damage(&store, &format!("UPDATE inbox_messages SET {change} WHERE seq = 2"));

            assert_eq!(look(&store, &[1]).await, Stranded::default(), "{change}");
            store.crash();
            assert_eq!(recover(&store, NOW).await, Recovered { requeued: 1, failed: 0 }, "{change}");
            assert_eq!(claim_one(&store, NOW).await.event.seq, first.event.seq, "{change}");
            let paid = answered("a paid answer", vec![new_reply(&chat, "a paid answer")]);
            store.turns().finish_turn(&first.event, paid, Vec::new(), NOW).await.unwrap();

            let mut claims = store.inbox().claim_next(1, NOW).await.unwrap();
            // What is less urgent than all the others comes behind them.
            if claims.damaged.is_empty() {
                let last = claims.whole.remove(0).event;
                store
                    .turns()
                    .finish_turn(&last, TurnEnd::Handled { replies: Vec::new() }, Vec::new(), NOW)
                    .await
                    .unwrap();
                claims.damaged = store.inbox().claim_next(1, NOW).await.unwrap().damaged;
            } else {
                assert_eq!(claims.whole.remove(0).event.text, "last", "{change}");
            }
            assert_eq!(claims.damaged, [damaged.id], "{change}");
            let told: Vec<String> = replies_in(&store).await.into_iter().map(|(_, text)| text).collect();
            assert_eq!(told.len(), 2, "{change}: {told:?}");
            assert!(told.iter().any(|text| text.contains("damaged on disk")), "{change}: {told:?}");
            assert!(told.iter().any(|text| text == "a paid answer"), "{change}: {told:?}");
        }
    }
}

#[tokio::test]
async fn a_time_of_retry_that_cannot_be_read_is_now() {
    for change in ["due_at = 'later'", "due_at = -5", "due_at = CAST(x'ff' AS TEXT)"] {
        let store = TempStore::create();
        let chat = topic("telegram", "chat");
        for text in ["first", "second"] {
            store.inbox().accept(new_event(&chat, text), NOW).await.unwrap();
        }
        let first = claim_one(&store, NOW).await;
        damage(&store, &format!("UPDATE inbox_messages SET {change} WHERE seq = 2"));
        store.turns().finish_turn(&first.event, answered("ok", Vec::new()), Vec::new(), NOW).await.unwrap();
        assert_eq!(claim_one(&store, NOW).await.event.text, "second", "{change}");
    }
}

#[tokio::test]
async fn a_counter_that_is_gone_stops_neither_a_claim_nor_a_start() {
    for column in ["attempts", "restarts", "steps_at_claim", "due_at"] {
        let mut store = TempStore::create();
        for key in ["a", "b"] {
            store.inbox().accept(new_event(&topic("telegram", key), key), NOW).await.unwrap();
        }
        lose(&store, "inbox_messages", column, "seq = 1");
        assert_eq!(store.inbox().claim_next(10, NOW).await.unwrap().whole.len(), 2, "{column}");
        lose(&store, "inbox_messages", column, "seq = 1");
        store.crash();
        assert_eq!(recover(&store, NOW).await, Recovered { requeued: 2, failed: 0 }, "{column}");
        assert_eq!(store.inbox().claim_next(10, NOW).await.unwrap().whole.len(), 2, "{column}");
    }
}

#[tokio::test]
async fn a_start_takes_up_every_event_whatever_is_damaged_about_the_one_in_flight() {
    let damages = [
        "UPDATE topics SET in_flight = 'none' WHERE topic_key = 'a'",
        "UPDATE topics SET in_flight = CAST(x'ff' AS TEXT) WHERE topic_key = 'a'",
        "UPDATE topics SET in_flight = 99 WHERE topic_key = 'a'",
        "UPDATE inbox_messages SET restarts = 1 << 40 WHERE seq = 1",
        "UPDATE inbox_messages SET restarts = 'many' WHERE seq = 1",
        "UPDATE inbox_messages SET attempts = 'many' WHERE seq = 1",
    ];
    for sql in damages {
        let mut store = TempStore::create();
        for key in ["a", "b"] {
            store.inbox().accept(new_event(&topic("telegram", key), key), NOW).await.unwrap();
        }
        assert_eq!(store.inbox().claim_next(10, NOW).await.unwrap().whole.len(), 2);
        damage(&store, sql);
        store.crash();
        assert_eq!(recover(&store, NOW).await, Recovered { requeued: 2, failed: 0 }, "{sql}");
        let claims = store.inbox().claim_next(10, NOW).await.unwrap();
        let texts: BTreeSet<String> = claims.whole.into_iter().map(|claimed| claimed.event.text).collect();
        assert_eq!(texts, BTreeSet::from(["a".to_owned(), "b".to_owned()]), "{sql}");
    }
}

#[tokio::test]
async fn an_event_in_flight_that_a_start_cannot_take_up_is_set_aside() {
    for change in
        ["status = 'processinh'", "status = CAST(x'ff' AS TEXT)", "topic_id = 'none'", "topic_id = 99"]
    {
        let mut store = TempStore::create();
        for key in ["a", "b"] {
            store.inbox().accept(new_event(&topic("telegram", key), key), NOW).await.unwrap();
        }
        assert_eq!(store.inbox().claim_next(10, NOW).await.unwrap().whole.len(), 2);
        damage(&store, &format!("UPDATE inbox_messages SET {change} WHERE seq = 1"));
        store.crash();
        assert_eq!(recover(&store, NOW).await, Recovered { requeued: 1, failed: 1 }, "{change}");
        assert_eq!(replies_in(&store).await.len(), 1, "{change}: the user is told");
        assert_eq!(claim_one(&store, NOW).await.event.text, "b", "{change}");
    }
}

#[tokio::test]
async fn a_finished_event_that_a_damaged_topic_names_stays_finished() {
    let mut store = TempStore::create();
    let chat = topic("telegram", "chat");
    for text in ["finished", "running"] {
        store.inbox().accept(new_event(&chat, text), NOW).await.unwrap();
    }
    let finished = claim_one(&store, NOW).await;
    store.turns().finish_turn(&finished.event, answered("ok", Vec::new()), Vec::new(), NOW).await.unwrap();
    assert_eq!(claim_one(&store, NOW).await.event.text, "running");
    damage(&store, "UPDATE topics SET in_flight = 1");
    damage(&store, "UPDATE inbox_messages SET restarts = 9 WHERE seq = 1");
    store.crash();
    assert_eq!(recover(&store, NOW).await, Recovered { requeued: 1, failed: 0 });
    assert_eq!(claim_one(&store, NOW).await.event.text, "running");
    let kept = store.inbox().find(finished.event.id).await.unwrap().unwrap();
    assert_eq!((kept.status, replies_in(&store).await.len()), (InboxStatus::Done, 0));
}

#[tokio::test]
async fn the_watchdog_finds_a_lost_event_beside_a_damaged_topic() {
    let store = TempStore::create();
    for key in ["damaged", "lost"] {
        store.inbox().accept(new_event(&topic("telegram", key), key), NOW).await.unwrap();
    }
    assert_eq!(store.inbox().claim_next(10, NOW).await.unwrap().whole.len(), 2);
    damage(&store, "UPDATE topics SET in_flight = 'none' WHERE topic_key = 'damaged'");
    let stranded = look(&store, &[]).await;
    assert_eq!(stranded.events, [2]);
    let rescued = store.watchdog().rescue(stranded, 3, NOW, notice).await.unwrap();
    assert_eq!(rescued.requeued.len(), 1);
    assert_eq!(claim_one(&store, NOW).await.event.text, "lost");
}

#[tokio::test]
async fn an_event_that_the_watchdog_cannot_fail_keeps_it_from_no_other() {
    let store = TempStore::create();
    set_modes(&store, &[("elsewhere", ChannelMode::Off)]).await;
    for key in ["damaged", "lost"] {
        store.inbox().accept(new_event(&topic("telegram", key), key), NOW).await.unwrap();
    }
    assert_eq!(store.inbox().claim_next(10, NOW).await.unwrap().whole.len(), 2);
    damage(&store, "UPDATE inbox_messages SET channel = CAST(x'ff' AS TEXT), attempts = 9 WHERE seq = 1");
    let rescued = store.watchdog().rescue(look(&store, &[]).await, 3, NOW, notice).await.unwrap();
    assert_eq!((rescued.requeued.len(), rescued.failed.len()), (1, 1));
    assert!(look(&store, &[]).await.is_empty());
    assert_eq!(replies_in(&store).await.len(), 1, "the user of the damaged one is told");
}

#[tokio::test]
async fn a_damaged_row_fails_its_own_request_and_none_of_the_same_batch() {
    let store = TempStore::create();
    let damaged = new_event(&topic("telegram", "damaged"), "hello");
    store.inbox().accept(damaged.clone(), NOW).await.unwrap();
    damage(&store, "UPDATE inbox_messages SET text = 'other' WHERE seq = 1");
    let lock = crate::group_commit::ForeignLock::take(&store.path());
    let (mut bad, mut good) = (tokio::task::JoinSet::new(), tokio::task::JoinSet::new());
    for number in 0..20 {
        let (writer, event) = (store.clone(), new_event(&topic("telegram", &number.to_string()), "x"));
        good.spawn(async move { writer.inbox().accept(event, NOW).await });
        let (writer, id) = (store.clone(), damaged.id.clone());
        bad.spawn(async move { writer.inbox().retry_failed(id, NOW).await });
    }
    tokio::task::yield_now().await;
    drop(lock);
    for answer in bad.join_all().await {
        assert!(matches!(answer, Err(StoreError::Damaged(_))), "{answer:?}");
    }
    for answer in good.join_all().await {
        assert!(answer.is_ok(), "{answer:?}");
    }
    assert_eq!(store.inbox().counts().await.unwrap().pending, 21);
    assert_eq!(store.health(), cortex_store::StoreHealth::Healthy, "the rows beside it are whole");
}

#[tokio::test]
async fn a_damaged_fact_op_or_line_is_left_out_and_the_others_are_read() {
    let store = TempStore::create();
    for (number, text) in [(1, "damaged"), (2, "whole")] {
        store.facts().keep(crate::fact::told(number, text), NOW).await.unwrap();
        store.ops().add(crate::op::new_op(number, None), NOW).await.unwrap();
        crate::outbox::send(&store, &topic("telegram", text), &[text], NOW).await;
    }
    damage(&store, "UPDATE facts SET pinned = 1, text = 'other' WHERE seq = 1");
    damage(&store, "UPDATE ops SET description = CAST(x'ff' AS TEXT) WHERE rowid = 1");
    damage(&store, "UPDATE turns SET content = CAST(x'ff' AS TEXT) WHERE id = 1");
    let scopes = PromptScopes {
        places: vec![cortex_types::FactScope::Global],
        people: Accounts::Everyone,
        topic: String::new(),
    };
    let facts: Vec<String> =
        store.facts().hot(scopes, 10).await.unwrap().into_iter().map(|fact| fact.text).collect();
    assert_eq!(facts, ["whole"]);
    let ops: Vec<String> =
        store.ops().shown(None).await.unwrap().into_iter().map(|op| op.description).collect();
    assert_eq!(ops, ["job 2"]);
    assert_eq!(store.memory_index().turns_to_index(10).await.unwrap().len(), 3);
    let heard = store.gardener().unextracted(10).await.unwrap().unwrap();
    assert_eq!((heard.lines.len(), heard.last), (1, 4), "the cursor goes past what is damaged");
}

#[tokio::test]
async fn a_damaged_key_or_session_opens_nothing_and_shuts_nobody_else_out() {
    let store = TempStore::create();
    for name in ["damaged", "whole"] {
        let prefix = name.to_owned();
        let key = KeyRow { name: name.to_owned(), prefix: prefix.clone(), sha256: [1; 32] };
        store.keys().put(key, NOW).await.unwrap();
        let key = ConnectorKey {
            id: cortex_types::KeyId::from_ulid(ulid::Ulid::generate()),
            name: format!("connector {name}"),
            source: name.to_owned(),
            prefix,
            sha256: [2; 32],
            created_at: NOW,
            revoked_at: None,
        };
        store.keys().create(key).await.unwrap().unwrap();
    }
    for (session, owner) in [([1; 32], [8; 32]), ([2; 32], [9; 32])] {
        let opened = ConnectorSession { opener: SessionOpener::Owner(owner), binding: None };
        store.connectors().open_session(session, opened, NOW).await.unwrap();
    }
    damage(&store, "UPDATE keys SET sha256 = x'00' WHERE name = 'damaged'");
    damage(&store, "UPDATE keys SET public_id = 'none' WHERE name = 'connector damaged'");
    let first = "(SELECT min(sha256) FROM connector_sessions)";
    damage(&store, &format!("UPDATE connector_sessions SET owner_sha256 = 'none' WHERE sha256 = {first}"));
    let active: Vec<String> = store.keys().active().await.unwrap().into_iter().map(|key| key.name).collect();
    assert_eq!(active, ["whole"]);
    let connectors = store.keys().of_connectors().await.unwrap();
    assert_eq!(connectors.into_iter().map(|key| key.source).collect::<Vec<_>>(), ["whole"]);
    assert_eq!(store.connectors().close_sessions_of_other_owners(vec![[9; 32]]).await, Ok(1));
    assert!(store.connectors().use_session([2; 32], NOW).await.unwrap().is_some());
}
