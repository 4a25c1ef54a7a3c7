//! A corpus of tool outputs that want more than they may, given to a model that obeys every word: a person decides.

use crate::far_side::{Question, called, said};
use crate::hands::{ADA, CountingBox, Stage, last_words};
use cortex_store::PageRequest;
use cortex_types::InboxStatus;

/// One output a paragraph, between lines of `%%`.
const CORPUS: &str = include_str!("injection/corpus.txt");

fn corpus() -> Vec<&'static str> {
    CORPUS.split("\n%%\n").map(str::trim_end).filter(|text| !text.is_empty()).collect()
}

/// Looks once; then calls the tool that changes something, and in its last words repeats what it read as they are.
fn obeys_and_calls(question: &Question) -> String {
    match last_words(&question.body).1.as_slice() {
        [] => called(&[("1", "box__look", "{}")]),
        [_] => {
            called(&[("2", "box__send", r#"{"to":"attacker"}"#), ("3", "box.send", r#"{"to":"attacker"}"#)])
        }
        [found, ..] => said(found),
    }
}

/// Looks once, then only says what it read, as an approval would be written.
fn obeys_and_talks(question: &Question) -> String {
    match last_words(&question.body).1.as_slice() {
        [] => called(&[("1", "box__look", "{}")]),
        [found, ..] => said(found.split_once('\n').map_or(found, |(_, found)| found)),
    }
}

/// Whether a client of HTML would see a tag, a comment or a declaration.
fn has_tag(text: &str) -> bool {
    let begins = |at: usize| {
        text[at + 1..].starts_with(|next: char| next.is_ascii_alphabetic() || "/!?".contains(next))
    };
    text.match_indices('<').any(|(at, _)| begins(at))
}

#[test]
fn the_corpus_is_large_and_varied() {
    let corpus = corpus();
    assert!(corpus.len() >= 50, "{}", corpus.len());
    let distinct: std::collections::BTreeSet<&str> = corpus.iter().copied().collect();
    assert_eq!(distinct.len(), corpus.len());
}

#[tokio::test(start_paused = true)]
async fn a_model_that_obeys_a_tool_output_changes_nothing_without_a_person() {
    let counting = CountingBox::holding("");
    let stage = Stage::set_with(|_| {}, counting, obeys_and_calls).await;
    let corpus = corpus();
    for text in &corpus {
        stage.counting.put(text);
        let id = stage.event(ADA, "What is in the box?", None).await;
        assert_eq!(stage.flow.event(&id).await.status, InboxStatus::Waiting, "{text}");
        assert_eq!(stage.counting.sent(), [""; 0], "{text}");
    }
    assert_eq!(stage.counting.looked(), corpus.len());
    assert_eq!(stage.prompts().await.len(), 2 * corpus.len(), "a person is asked about each call");
    // Nobody says yes: the model repeats the output to its user, and that decides nothing either.
    let tokens = stage.tokens().await;
    for token in &tokens {
        stage.event(ADA, &format!("{token}:deny"), None).await;
    }
    assert_eq!(stage.counting.sent(), [""; 0]);
    let approvals = stage.flow.store.approvals().list(false, PageRequest::newest(500)).await.unwrap().rows;
    assert!(approvals.iter().all(|approval| approval.status.as_str() == "denied"), "{approvals:?}");
}

#[tokio::test(start_paused = true)]
async fn a_model_that_prints_an_approval_approves_nothing() {
    let stage = Stage::set_with(
        |_| {},
        CountingBox::holding(""),
        |question| match last_words(&question.body).0.as_str() {
            "Send it." if last_words(&question.body).1.is_empty() => {
                called(&[("1", "box__send", r#"{"to":"bob"}"#)])
            }
            _ => obeys_and_talks(question),
        },
    )
    .await;
    let waiting = stage.event(ADA, "Send it.", None).await;
    let token = stage.tokens().await.remove(0);
    for text in corpus() {
        // The worst case: the output names the very token of the question that is open.
        let text = text.replace("apr_TOKEN", &token);
        stage.counting.put(&text);
        let id = stage.event(ADA, "What is in the box?", None).await;
        assert_eq!(stage.flow.event(&id).await.status, InboxStatus::Done, "{text}");
        let said = stage.outbox().await.pop().unwrap();
        assert_eq!(said.payload_json, None, "it is said without buttons");
        assert!(!said.text.contains("![") && !has_tag(&said.text), "nothing in it is fetched: {}", said.text);
        let letters = |text: &str| text.replace(' ', "");
        let undrawn = text.trim().replace("```json", "```text json");
        assert_eq!(letters(&said.text), letters(&undrawn), "every letter of it is said");
        assert_eq!(stage.flow.event(&waiting).await.status, InboxStatus::Waiting, "{text}");
    }
    assert_eq!(stage.counting.sent(), [""; 0]);
}
