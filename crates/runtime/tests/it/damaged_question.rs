//! A question that is damaged on disk: a plain word never decides another for it, and its turn ends like any other.

use crate::hands::{ADA, Stage};
use cortex_testkit::{damage_question, eventually};
use cortex_types::InboxStatus;
use std::time::Duration;

/// How many of the two questions were decided by a person.
fn decided(stage: &Stage) -> usize {
    count(stage, "SELECT count(*) FROM pending_approvals WHERE status IN ('approved', 'denied')")
}

fn count(stage: &Stage, sql: &str) -> usize {
    let connection = rusqlite::Connection::open(stage.flow.store.path()).unwrap();
    connection.query_row(sql, [], |row| row.get(0)).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_plain_word_decides_no_question_while_another_cannot_be_read() {
    let damages = [
        "call_id = CAST(x'00' AS BLOB)",
        "event_seq = 99",
        "event_seq = 'none'",
        "status = 'pendinh'",
        "source = 'tesu'",
        "topic_key = CAST(x'ff' AS TEXT)",
        "user_id = 'eve'",
        "prompt_id = x'00'",
        "expires_at = 'noon'",
    ];
    for change in damages {
        let stage = Stage::set(|flow| flow.bare_words = true).await;
        let asking = stage.event(ADA, "go both", None).await;
        stage.deliver().await;
        assert_eq!(damage_question(&stage.flow.store.path(), 1, change), 1);
        stage.event(ADA, "yes", None).await;
        assert_eq!((stage.counting.sent().len(), decided(&stage)), (0, 0), "{change}");
        assert_eq!(stage.flow.event(&asking).await.status, InboxStatus::Waiting, "{change}");
        let lines: Vec<String> = stage.outbox().await.into_iter().map(|row| row.text).collect();
        assert!(lines.iter().any(|line| line.starts_with("2 questions are open")), "{change}: {lines:?}");
        assert_eq!(stage.heard_words(), ["go both"], "no plain word reached the model: {change}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_plain_word_decides_nothing_while_nobody_knows_what_was_shown() {
    let stage = Stage::set(|flow| flow.bare_words = true).await;
    stage.event(ADA, "go both", None).await;
    stage.deliver().await;
    assert_eq!(cortex_testkit::damage_delivery(&stage.flow.store.path(), 1), 1);
    stage.event(ADA, "yes", None).await;
    assert_eq!((stage.counting.sent().len(), decided(&stage)), (0, 0));
    let again = "SELECT count(*) FROM outbox_messages WHERE text LIKE '2 questions are open%'";
    assert_eq!(count(&stage, again), 2);
}

#[tokio::test(start_paused = true)]
async fn a_plain_word_to_the_only_question_is_told_when_that_cannot_be_read() {
    let stage = Stage::set(|flow| flow.bare_words = true).await;
    stage.event(ADA, "go", None).await;
    stage.deliver().await;
    assert_eq!(damage_question(&stage.flow.store.path(), 1, "call_id = x'00'"), 1);
    stage.event(ADA, "yes", None).await;
    assert_eq!((stage.counting.sent().len(), decided(&stage)), (0, 0));
    let lines: Vec<String> = stage.outbox().await.into_iter().map(|row| row.text).collect();
    assert!(lines.iter().any(|line| line.contains("damaged on disk")), "{lines:?}");
    assert_eq!(stage.heard_words(), ["go"]);
}

#[tokio::test(start_paused = true)]
async fn a_turn_whose_question_is_damaged_ends_with_an_answer() {
    for change in ["event_seq = 99", "status = 'pendinh'"] {
        let stage = Stage::set(|_| {}).await;
        let asking = stage.event(ADA, "go", None).await;
        assert_eq!(damage_question(&stage.flow.store.path(), 1, change), 1);
        eventually("the turn to end", async || {
            stage.time.advance(Duration::from_secs(10)).await;
            (stage.flow.event(&asking).await.status == InboxStatus::Done).then_some(())
        })
        .await;
        assert_eq!(stage.counting.sent().len(), 0, "{change}");
        let told = stage.flow.replies(&asking).await;
        assert!(told.last().is_some_and(|line| line.contains("Tools: ")), "{change}: {told:?}");
    }
}
