//! A turn that waits for a person, over OpenAI's door: asked in words, answered by a reply or on a page.

use crate::openai_parts::{chat_in, content, said, streamed};
use crate::sample::{asking, jobs};
use cortex_testkit::{Answer, FrozenTime, Request, RunningTestServer, eventually};
use serde_json::{Value, json};
use std::time::Duration;

/// The token in the link of the only question.
fn token(completion: &Value) -> String {
    let url = completion["cortex"]["approvals"][0]["url"].as_str().unwrap_or_else(|| panic!("{completion}"));
    url.rsplit('/').next().unwrap().to_owned()
}

/// A browser: no key.
fn page(server: &RunningTestServer, method: &str, token: &str) -> Request {
    server.request(method, &format!("/approve/{token}")).without_key()
}

fn approving(server: &RunningTestServer, token: &str) -> Request {
    page(server, "POST", token).body("decision=approve")
}

fn assert_is_safe(page: &Answer) {
    assert_eq!(page.header("content-type"), Some("text/html; charset=utf-8"));
    assert_eq!(page.header("cache-control"), Some("no-store"));
    assert_eq!(page.header("x-content-type-options"), Some("nosniff"));
    assert_eq!(page.header("referrer-policy"), Some("same-origin"));
    let policy = page.header("content-security-policy").unwrap_or_default();
    let style = policy.split("; ").find(|rule| rule.starts_with("style-src ")).unwrap_or_default();
    assert!(
        style.starts_with("style-src 'sha256-") && !style.contains("unsafe"),
        "one style, by its hash: {policy}"
    );
    let rest = policy.replace(&format!("{style}; "), "");
    assert_eq!(rest, "default-src 'none'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'");
    assert!(!page.text().contains("<script"), "{}", page.text());
}

#[tokio::test]
async fn a_plain_yes_gets_the_question_again_with_the_words_to_type() {
    let server = asking("stretch").start().await;
    let asked = chat_in(&server, "garden", "stretch").await;
    let token = token(&asked);
    eventually("the question to be delivered", async || {
        let row = server.get("/api/v2/outbox").await.json()["items"][0].clone();
        (row["status"] == "delivered").then_some(())
    })
    .await;
    let again = chat_in(&server, "garden", "yes").await;
    let text = content(&again);
    assert!(
        text.starts_with(
            "I am still waiting for your answer; a plain yes or no does not decide this:\nMay I add"
        ),
        "{text}"
    );
    assert!(text.contains(&format!("reply exactly `{token}:approve` or `{token}:deny`")), "{text}");
    assert_eq!(jobs(&server).await, 0);
}

#[tokio::test]
async fn a_question_comes_back_as_text_with_a_link_and_a_reply_answers_it() {
    let server = asking("stretch <b>now</b>").start().await;
    let asked = chat_in(&server, "garden", "stretch").await;
    let token = token(&asked);
    let url = format!("http://{}/approve/{token}", server.address());
    assert_eq!(asked["choices"][0]["finish_reason"], "stop");
    assert_eq!(asked["cortex"]["status"], "waiting");
    assert_eq!(asked["cortex"]["approvals"][0]["url"], url);
    let id = asked["cortex"]["approvals"][0]["id"].as_str().unwrap();
    assert_eq!(server.get(&format!("/api/v2/approvals/{id}")).await.json()["status"], "pending");
    let text = content(&asked);
    assert!(text.starts_with("May I add a reminder every day at 09:00 (UTC)?"), "{text}");
    let how = format!("To answer, reply exactly `{token}:approve` or `{token}:deny`, or open {url}");
    assert!(text.ends_with(&how), "{text}");
    assert_eq!(jobs(&server).await, 0);
    let approved = chat_in(&server, "garden", &format!("{token}:approve")).await;
    assert!(content(&approved).ends_with("There you are."), "{approved}");
    assert!(!content(&approved).contains("May I add"), "what was seen before is not said again: {approved}");
    assert_eq!(jobs(&server).await, 1);
}

#[tokio::test]
async fn a_streamed_question_ends_with_the_same_facts_and_another_conversation_cannot_answer_it() {
    let server = asking("stretch <b>now</b>").start().await;
    let mut body = said("stretch");
    body["stream"] = json!(true);
    let answer = server.post("/v1/chat/completions", &body).await;
    let last = streamed(&answer).pop().unwrap();
    assert_eq!(
        (&last["choices"][0]["finish_reason"], &last["cortex"]["status"]),
        (&json!("stop"), &json!("waiting"))
    );
    let token = token(&last);
    let stranger = chat_in(&server, "elsewhere", &format!("{token}:approve")).await;
    assert_eq!(stranger["cortex"]["status"], "done", "it does not wait for what is not its own: {stranger}");
    assert_eq!(jobs(&server).await, 0);
    let mut body = said(&format!("{token}:deny"));
    body["stream"] = json!(true);
    let answer = server.post("/v1/chat/completions", &body).await;
    let ended = streamed(&answer).pop().unwrap();
    assert_eq!(ended["cortex"]["status"], "done", "{}", answer.text());
    assert_eq!(jobs(&server).await, 0);
}

#[tokio::test]
async fn the_page_shows_the_question_and_only_a_post_decides_it_once() {
    let server = asking("stretch <b>now</b>").start().await;
    let token = token(&chat_in(&server, "garden", "stretch").await);
    for _ in 0..2 {
        let shown = page(&server, "GET", &token).send().await;
        assert_eq!(shown.status, 200);
        assert_is_safe(&shown);
        assert!(shown.text().contains("schedule.create"), "{}", shown.text());
        assert!(shown.text().contains("stretch &lt;b&gt;now&lt;/b&gt;"), "{}", shown.text());
        assert!(!shown.text().contains("<b>"), "{}", shown.text());
    }
    assert_eq!(jobs(&server).await, 0, "looking decides nothing");
    for form in ["", "decision=maybe", "decision=approve&decision=deny"] {
        let answer = page(&server, "POST", &token).body(form).send().await;
        assert_eq!(answer.status, 400, "{form}");
        assert_is_safe(&answer);
    }
    let foreign = approving(&server, &token).header("origin", "https://evil.example").send().await;
    assert_eq!(foreign.status, 403);
    let own = format!("http://{}", server.address());
    let decided = approving(&server, &token).header("origin", &own).send().await;
    assert_eq!(decided.status, 200, "{}", decided.text());
    assert_is_safe(&decided);
    eventually("the job", async || (jobs(&server).await == 1).then_some(())).await;
    for (answer, what) in [
        (page(&server, "GET", &token).send().await, "GET"),
        (approving(&server, &token).send().await, "POST"),
    ] {
        assert_eq!(answer.status, 410, "{what}");
        assert!(!answer.text().contains("schedule"), "{}", answer.text());
        assert_is_safe(&answer);
    }
    assert_eq!(jobs(&server).await, 1);
    let told = eventually("the end of the turn", async || {
        let body = chat_in(&server, "garden", &format!("{token}:approve")).await;
        content(&body).contains("There you are.").then(|| content(&body))
    })
    .await;
    assert!(told.contains("There you are."), "{told}");
}

#[tokio::test(start_paused = true)]
async fn an_expired_link_is_gone_and_runs_nothing() {
    let time = FrozenTime::hold();
    let server = asking("stretch <b>now</b>").at(&time).start().await;
    let token = token(&chat_in(&server, "garden", "stretch").await);
    time.advance(Duration::from_secs(15 * 60)).await;
    assert_eq!(page(&server, "GET", &token).send().await.status, 410);
    assert_eq!(approving(&server, &token).send().await.status, 410);
    assert_eq!(jobs(&server).await, 0);
}

#[tokio::test]
async fn guessed_tokens_cost_like_wrong_keys_and_a_right_one_is_still_served() {
    let server = asking("stretch <b>now</b>").start().await;
    let right = token(&chat_in(&server, "garden", "stretch").await);
    for number in 0..10 {
        let guess = format!("apr_{number:026}");
        let request = if number % 2 == 0 { page(&server, "GET", &guess) } else { approving(&server, &guess) };
        let answer = request.send().await;
        assert_eq!(answer.status, 404, "guess {number}");
        assert_is_safe(&answer);
    }
    let eleventh = page(&server, "GET", "apr_x").send().await;
    assert_eq!(eleventh.status, 429);
    assert!(eleventh.header("retry-after").is_some_and(|wait| wait.parse::<u64>().is_ok()));
    assert_eq!(page(&server, "GET", &right).send().await.status, 200);
}
