//! What readers of the database see of the history beside its words: who said it, what came with it, what was extracted.

use cortex_store::{FinishedTurn, HistoryFilter, Learned, TurnEnd};
use cortex_testkit::{TempStore, new_event, topic};
use cortex_types::{Millis, NewEvent};
use rusqlite::Connection;
use serde_json::{Value, json};

const NOW: Millis = Millis(1_000);

/// Answers a new event; the ids of its two turns follow those before.
async fn answer(store: &TempStore, new: NewEvent, attachments: Option<&str>) {
    store.inbox().accept(new, NOW).await.unwrap();
    let event = store.inbox().claim_next(1, NOW).await.unwrap().whole.remove(0).event;
    let end = TurnEnd::Answered(Box::new(FinishedTurn {
        content: "done".to_owned(),
        attachments: attachments.map(str::to_owned),
        ..FinishedTurn::default()
    }));
    store.turns().finish_turn(&event, end, Vec::new(), NOW).await.unwrap();
}

fn look<const COLUMNS: usize>(store: &TempStore, sql: &str) -> Vec<[String; COLUMNS]> {
    let connection = Connection::open(store.path()).unwrap();
    let mut statement = connection.prepare(sql).unwrap();
    let rows =
        statement.query_map([], |row| Ok(std::array::from_fn(|column| row.get_unwrap(column)))).unwrap();
    rows.collect::<Result<_, _>>().unwrap()
}

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

#[tokio::test]
async fn an_envelope_has_the_relationship_of_its_sender_and_what_came_with_it() {
    let store = TempStore::create();
    let metadata = json!({"chatId": "-100", "attachments": [{"name": "cat.jpg", "type": "image/jpeg"}]});
    let with_picture = NewEvent {
        metadata_json: Some(metadata.to_string()),
        relationship: Some("colleague".to_owned()),
        ..new_event(&topic("telegram", "chat"), "look")
    };
    answer(&store, with_picture, Some("[attachments: cat.jpg (image/jpeg)]")).await;
    answer(&store, new_event(&topic("web", "t"), "hello"), None).await;
    let [bare, full] = &look::<1>(&store, "SELECT envelope FROM cortex_bus ORDER BY id DESC")[..] else {
        panic!("two events")
    };
    let (bare, full) = (parsed(&bare[0]), parsed(&full[0]));
    assert_eq!((&bare["relationship"], &bare["attachments"]), (&json!("owner"), &json!([])));
    assert_eq!(
        (&full["relationship"], &full["attachments"]),
        (&json!("colleague"), &metadata["attachments"])
    );
    assert_eq!(
        (&full["sender"], &full["topic"], &full["metadata"]),
        (&json!("ada"), &json!("chat"), &metadata)
    );
    let session: Vec<Value> = look::<1>(&store, "SELECT metadata FROM cortex_session ORDER BY id")
        .iter()
        .map(|[text]| parsed(text))
        .collect();
    let mut tagged = metadata.clone();
    tagged["topic"] = json!("chat");
    tagged["relationship"] = json!("colleague");
    let owner = json!({"topic": "t", "relationship": "owner"});
    assert_eq!(session, [tagged, json!({"topic": "chat"}), owner, json!({"topic": "t"})]);
}

#[tokio::test]
async fn the_history_keeps_who_spoke_and_the_line_of_attachments() {
    let store = TempStore::create();
    let by_eve = NewEvent { relationship: Some("unknown".to_owned()), ..new_event(&topic("a", "t"), "look") };
    answer(&store, by_eve, Some("[attachments: cat.jpg]")).await;
    let said = store.history().newest(HistoryFilter::default(), 10).await.unwrap();
    let tags: Vec<_> =
        said.iter().map(|turn| (turn.relationship.as_deref(), turn.attachments.as_deref())).collect();
    assert_eq!(tags, [(Some("unknown"), Some("[attachments: cat.jpg]")), (None, None)]);
    let rows = store.turns().history(topic("a", "t"), 10).await.unwrap();
    assert_eq!(rows[0].attachments.as_deref(), Some("[attachments: cat.jpg]"));
    assert_eq!((rows[0].content.as_str(), rows[1].attachments.as_deref()), ("look", None));
}

#[tokio::test]
async fn only_what_people_said_is_learned_from() {
    let store = TempStore::create();
    for channel in [Some("cron"), None, Some("hook:ci"), Some("router"), Some("hooked")] {
        let said = new_event(&topic("a", "t"), channel.unwrap_or("a person"));
        answer(&store, NewEvent { channel: channel.map(str::to_owned), ..said }, None).await;
    }
    let behind = store.gardener().unextracted(100).await.unwrap().unwrap();
    let texts: Vec<&str> = behind.lines.iter().map(|line| line.content.as_str()).collect();
    assert_eq!((texts, behind.last), (vec!["a person", "hooked"], 10));
}

#[tokio::test]
async fn the_one_cursor_is_shown_for_each_topic() {
    let store = TempStore::create();
    let cursors =
        "SELECT source, topic_key, CAST(last_extracted_turn_id AS TEXT), CAST(turns_since_extraction AS TEXT)
                   FROM extraction_cursors ORDER BY source, topic_key";
    assert_eq!(look::<4>(&store, cursors), [[""; 4]; 0]);
    let tick = NewEvent { channel: Some("cron".to_owned()), ..new_event(&topic("a", "t"), "tick") };
    answer(&store, new_event(&topic("a", "t"), "one"), None).await;
    answer(&store, new_event(&topic("b", "t"), "two"), None).await;
    answer(&store, new_event(&topic("a", "t"), "three"), None).await;
    answer(&store, tick, None).await;
    assert_eq!(look::<4>(&store, cursors), [["a", "t", "0", "2"], ["b", "t", "0", "1"]]);
    let gardener = store.gardener();
    let up_to = |last| gardener.settle(Learned::FromTurns { last }, NOW);
    up_to(4).await.unwrap();
    assert_eq!(look::<4>(&store, cursors), [["a", "t", "2", "1"], ["b", "t", "4", "0"]]);
    up_to(8).await.unwrap();
    assert_eq!(look::<4>(&store, cursors), [["a", "t", "8", "0"], ["b", "t", "4", "0"]]);
    let connection = Connection::open(store.path()).unwrap();
    let statement = connection.prepare("SELECT * FROM extraction_cursors").unwrap();
    let columns: Vec<&str> = statement.column_names().collect();
    assert_eq!(columns, ["topic_key", "last_extracted_turn_id", "turns_since_extraction", "source"]);
}
