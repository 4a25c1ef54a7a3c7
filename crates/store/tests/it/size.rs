//! What answers take on disk: they stand in the outbox and in the history, and nowhere else.

use cortex_store::{FinishedTurn, PageRequest, TurnEnd};
use cortex_testkit::{TempStore, new_event, new_reply, topic};
use cortex_types::limits::LIST_BYTES_MAX;
use cortex_types::{ChatReply, FinishReason, Millis, Step, StepBody, TokenUsage};
use rusqlite::Connection;

const NOW: Millis = Millis(1_000);
const ANSWERS: usize = 100;

/// Answers so many events with a text of so many letters each.
async fn answer(store: &TempStore, answers: usize, letters: usize) {
    for number in 0..answers {
        let chat = topic("telegram", &format!("chat {}", number % 7));
        store.inbox().accept(new_event(&chat, "hello"), NOW).await.unwrap();
        let claimed = store.inbox().claim_next(1, NOW).await.unwrap().whole.remove(0);
        let text = format!("{number:08}").repeat(letters / 8);
        let reply = ChatReply {
            text: text.clone(),
            tool_calls: Vec::new(),
            finish: FinishReason::Stop,
            usage: TokenUsage::default(),
        };
        let body = StepBody::ModelAnswered { reply, profile: "p".to_owned(), model: "m".to_owned() };
        let finished = FinishedTurn {
            last_step: Some(Step { number: 0, at: NOW, body }),
            content: text.clone(),
            replies: vec![new_reply(&chat, &text)],
            ..FinishedTurn::default()
        };
        let end = TurnEnd::Answered(Box::new(finished));
        store.turns().finish_turn(&claimed.event, end, Vec::new(), NOW).await.unwrap();
    }
}

fn pages_in_use(store: &TempStore) -> usize {
    let connection = Connection::open(store.path()).unwrap();
    let number = |sql: &str| connection.query_row(sql, [], |row| row.get::<_, usize>(0)).unwrap();
    number("PRAGMA page_count") - number("PRAGMA freelist_count")
}

#[tokio::test]
async fn an_answer_is_stored_twice_and_no_more() {
    for letters in [100_000, 4_000, 1_600] {
        let store = TempStore::create();
        answer(&store, 20, letters).await;
        let before = pages_in_use(&store);
        answer(&store, ANSWERS, letters).await;
        let bytes = (pages_in_use(&store) - before) * 4_096;
        // Beside its words an event has a row in a few tables; that is the same however long its answer is.
        let most = ANSWERS * (letters * 21 / 10 + 2_048);
        assert!(
            bytes <= most,
            "{ANSWERS} answers of {letters} letters take {bytes} bytes, {most} are allowed"
        );
        assert!(bytes >= ANSWERS * letters * 2, "{bytes} bytes cannot hold two copies of {letters} letters");
    }
}

#[tokio::test]
async fn the_journal_still_tells_the_words_of_an_answer() {
    let store = TempStore::create();
    answer(&store, 1, 80).await;
    let event = store.inbox().list(None, PageRequest::newest(1)).await.unwrap().rows.remove(0);
    let trace = store.trace(event.id).await.unwrap().unwrap();
    let [Step { body: StepBody::ModelAnswered { reply, .. }, .. }] = &trace.steps[..] else {
        panic!("{:?}", trace.steps)
    };
    assert_eq!(reply.text, "00000000".repeat(10));
}

#[tokio::test]
async fn a_page_of_large_messages_ends_early_and_the_next_goes_on() {
    let store = TempStore::create();
    let letters = 800_000;
    answer(&store, 12, letters).await;
    let mut page = PageRequest::newest(500);
    let mut seen = Vec::new();
    loop {
        let found = store.outbox().list(None, None, page).await.unwrap();
        let bytes: usize = found.rows.iter().map(|row| row.text.len()).sum();
        assert!(bytes <= LIST_BYTES_MAX && !found.rows.is_empty(), "{bytes}");
        seen.extend(found.rows.iter().map(|row| row.text[..8].to_owned()));
        let Some(before) = found.next_before else { break };
        page = PageRequest { before: Some(before), limit: 500 };
    }
    let wanted: Vec<String> = (0..12).rev().map(|number| format!("{number:08}")).collect();
    assert_eq!(seen, wanted);
}
