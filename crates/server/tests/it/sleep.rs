//! The whole server over a laptop's sleep and over clocks that are set: what should have expired has, what is due fires
//! once, and signatures are judged by the wall clock (F-A9).

use crate::sample::{event, saying};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use cortex_testkit::{FrozenTime, RunningTestServer, ServerSetup, eventually};
use hmac::{Hmac, Mac};
use serde_json::{Value, json};
use sha2::Sha256;
use std::time::Duration;

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const HOUR_MS: i64 = 3_600_000;

/// Asks before it makes a job when somebody says "ask"; anything else is answered.
fn serving(time: &FrozenTime) -> ServerSetup {
    let arguments = json!({ "cron": "0 9 * * *", "what": "stretch", "timezone": "UTC" });
    let call = json!({ "name": "schedule.create", "arguments": arguments });
    let script = json!({
        "answers": [
            { "when": { "afterTool": "schedule.create" }, "say": "There you are." },
            { "when": { "contains": "ask" }, "toolCalls": [call] },
        ],
        "otherwise": { "say": "You said: {{user}}" },
    });
    let hooks = json!({ "signed": { "secret": SECRET, "text": "{{/text}}" } });
    ServerSetup::scripted(script)
        .at(time)
        .hooks(hooks)
        .flow(|flow| flow.approval_ttl = Duration::from_secs(60))
}

/// A webhook that somebody signs at this moment of the wall clock.
async fn signed_at(server: &RunningTestServer, id: &str, at_ms: i64) -> u16 {
    let (body, timestamp) = (format!("{{\"text\": \"{id}\"}}"), at_ms.div_euclid(1_000).to_string());
    let key = STANDARD.decode(SECRET.trim_start_matches("whsec_")).unwrap();
    let signed = format!("{id}.{timestamp}.{body}");
    let mac = Hmac::<Sha256>::new_from_slice(&key).unwrap().chain_update(signed).finalize();
    let signature = format!("v1,{}", STANDARD.encode(mac.into_bytes()));
    let request = server.request("POST", "/hooks/signed").without_key().body(body);
    let request = request.header("webhook-id", id).header("webhook-timestamp", &timestamp);
    request.header("webhook-signature", &signature).send().await.status
}

async fn make_job(server: &RunningTestServer, cron: &str, zone: &str) {
    let body = json!({ "cron": cron, "what": "stretch", "timezone": zone });
    let made = server.post("/api/v2/schedules", &body).await;
    assert_eq!(made.status, 201, "{}", made.text());
}

/// The records of the first job, once there are as many; a second passes with each look.
async fn slots(server: &RunningTestServer, time: &FrozenTime, count: usize) -> Vec<Value> {
    eventually(format!("{count} records"), async || {
        time.advance(Duration::from_secs(1)).await;
        let job = server.get("/api/v2/schedules/1").await.json();
        job["slots"].as_array().cloned().filter(|slots| slots.len() >= count)
    })
    .await
}

#[tokio::test(start_paused = true)]
async fn after_eight_hours_of_sleep_questions_are_over_schedules_caught_up_once_and_webhooks_are_fresh() {
    let time = FrozenTime::hold();
    let server = serving(&time).start().await;
    make_job(&server, "30 * * * *", "UTC").await;
    let asked = server.accept(&saying("1", "ask")).await;
    let question = eventually("a question", async || {
        let open = server.get("/api/v2/approvals").await.json();
        open["items"][0]["approvalId"].as_str().map(str::to_owned)
    })
    .await;
    let leased = server.answered(&event("2")).await;
    let held = server.poll(&json!({ "source": "telegram", "leaseSeconds": 60 })).await;
    assert!(held.iter().any(|message| message["text"].as_str().unwrap().starts_with("You said")), "{leased}");
    let before = time.wall().0;

    // The machine sleeps: its timers stand still, and a second after it wakes everything is as it should be.
    time.jump_ms(8 * HOUR_MS);
    time.advance(Duration::from_secs(1)).await;
    let row = eventually("the end of the question", async || {
        let row = server.get(&format!("/api/v2/approvals/{question}")).await.json();
        (row["status"] != "pending").then_some(row)
    })
    .await;
    assert_eq!(row["status"], "expired");
    let refused = server.post(&format!("/api/v2/approvals/{question}/approve"), &json!({})).await;
    assert_eq!(refused.status, 409, "a question of a minute is over after eight hours");
    server.ended(&asked).await;

    let records = slots(&server, &time, 1).await;
    let fired: Vec<&Value> = records.iter().filter(|slot| slot["outcome"] == "caught_up").collect();
    assert_eq!(fired.len(), 1, "{records:?}");
    assert!(!records.iter().any(|slot| slot["outcome"] == "fired"), "{records:?}");
    let events = eventually("the run", async || {
        let inbox = server.get("/api/v2/inbox").await.json();
        let runs =
            inbox["items"].as_array()?.iter().filter(|row| row["text"].as_str().unwrap().contains("stretch"));
        let runs: Vec<Value> = runs.cloned().collect();
        (!runs.is_empty()).then_some(runs)
    })
    .await;
    assert_eq!(events.len(), 1, "{events:?}");

    assert_eq!(signed_at(&server, "fresh", time.wall().0).await, 202);
    assert_eq!(signed_at(&server, "stale", before).await, 401);
    let again = server.poll(&json!({ "source": "telegram", "leaseSeconds": 60 })).await;
    let name = |message: &Value| message["messageId"].as_str().unwrap().to_owned();
    assert!(
        again.iter().any(|message| held.iter().any(|old| name(old) == name(message))),
        "leases ended in the sleep: {held:?} {again:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_is_set_back_doubts_no_fresh_webhook_and_gives_no_lease_twice() {
    let time = FrozenTime::hold();
    let server = serving(&time).start().await;
    server.answered(&event("1")).await;
    let poll = json!({ "source": "telegram", "leaseSeconds": 60 });
    assert_eq!(server.poll(&poll).await.len(), 1);
    for step in [HOUR_MS, -HOUR_MS, 24 * HOUR_MS, -24 * HOUR_MS] {
        time.jump_ms(step);
        time.advance(Duration::from_secs(1)).await;
        assert_eq!(signed_at(&server, &format!("step {step}"), time.wall().0).await, 202, "after {step}");
        let wrong = time.wall().0 - step;
        assert_eq!(signed_at(&server, &format!("wrong {step}"), wrong).await, 401, "after {step}");
    }
    // The jumps ended the first lease; the next one lasts its minute, wherever the wall clock goes.
    assert_eq!(server.poll(&poll).await.len(), 1);
    time.jump_ms(-HOUR_MS);
    time.advance(Duration::from_secs(59)).await;
    assert_eq!(server.poll(&poll).await.len(), 0, "it is leased");
    time.advance(Duration::from_secs(1)).await;
    assert_eq!(server.poll(&poll).await.len(), 1, "it is not hidden for an hour");
}

#[tokio::test(start_paused = true)]
async fn a_slot_that_fired_does_not_fire_again_when_the_clock_is_set_back() {
    let time = FrozenTime::hold();
    let server = serving(&time).start().await;
    make_job(&server, "0 * * * *", "UTC").await;
    time.jump_ms(HOUR_MS);
    time.advance(Duration::from_secs(1)).await;
    assert_eq!(slots(&server, &time, 1).await.len(), 1);
    time.jump_ms(-HOUR_MS);
    for _ in 0..2 {
        time.advance(Duration::from_secs(31)).await;
    }
    // A later slot shows that the scheduler looked again.
    time.jump_ms(2 * HOUR_MS);
    let records = slots(&server, &time, 2).await;
    assert_eq!(records.len(), 2, "{records:?}");
}

#[tokio::test(start_paused = true)]
async fn a_sleep_over_the_change_to_summer_time_catches_up_once() {
    let time = FrozenTime::hold();
    // Sat 27 March 2027, 21:00 UTC; in Berlin 02:30 of the next day does not exist.
    let evening = 1_806_181_200_000;
    time.jump_ms(evening - time.wall().0);
    let server = serving(&time).start().await;
    make_job(&server, "30 2 * * *", "Europe/Berlin").await;
    time.jump_ms(8 * HOUR_MS);
    time.advance(Duration::from_secs(1)).await;
    let records = slots(&server, &time, 1).await;
    assert_eq!(records.len(), 1, "{records:?}");
    assert_eq!(records[0]["from"], records[0]["to"], "{records:?}");
}
