//! `POST /outbox/poll`: who gets which message, in which order, for how long and how often (D1, D2, D5).

use crate::sample::{event, saying, with};
use cortex_testkit::{FrozenTime, RunningTestServer, ServerSetup};
use serde_json::{Value, json};
use std::collections::HashSet;
use std::time::Duration;
use tokio::task::JoinSet;

const MINUTE: Duration = Duration::from_secs(60);

/// A server on frozen time with one reply waiting for each of these texts, a topic each.
async fn with_replies(setup: ServerSetup, time: &FrozenTime, texts: &[&str]) -> RunningTestServer {
    let server = setup.at(time).start().await;
    for text in texts {
        server.answered(&with(saying(text, text), "topicKey", json!(text))).await;
        time.advance(Duration::from_millis(1)).await;
    }
    server
}

async fn poll_texts(server: &RunningTestServer, body: &Value) -> Vec<String> {
    let messages = server.poll(body).await;
    messages.iter().map(|message| message["text"].as_str().unwrap().replace("You said: ", "")).collect()
}

async fn row(server: &RunningTestServer, message: &Value) -> Value {
    server.get(&format!("/api/v2/outbox/{}", message["messageId"].as_str().unwrap())).await.json()
}

#[tokio::test]
async fn a_message_has_exactly_the_five_fields_and_a_null_payload() {
    let server = ServerSetup::echoing().start().await;
    server.answered(&event("1")).await;
    let [message] = &server.poll(&json!({ "source": "telegram" })).await[..] else { panic!("one message") };
    let (id, lease) = (message["messageId"].as_str().unwrap(), message["leaseToken"].as_str().unwrap());
    assert_eq!((id.len(), id.starts_with("out_")), (30, true), "{id}");
    assert_eq!((lease.len(), lease.starts_with("lease_")), (32, true), "{lease}");
    let expected = json!({
        "messageId": id, "leaseToken": lease, "topicKey": "chat-42:thread-root",
        "text": "You said: Remind me every weekday at 9", "payload": null,
    });
    assert_eq!(*message, expected);
}

#[tokio::test]
async fn nothing_to_deliver_is_an_empty_list() {
    let server = ServerSetup::echoing().start().await;
    let answer = server.post("/outbox/poll", &json!({ "source": "telegram" })).await;
    assert_eq!(answer.seen(), (200, json!({ "messages": [] })));
}

#[tokio::test]
async fn limits_out_of_range_are_refused_in_exactly_the_documented_words() {
    let server = ServerSetup::echoing().start().await;
    let max = "max must be between 1 and 100";
    let lease = "leaseSeconds must be between 10 and 300";
    let check = async |body: Value, details: &[&str]| {
        let answer = server.post("/outbox/poll", &body).await;
        let refusal = json!({ "error": "invalid_request", "details": details });
        assert_eq!(answer.seen(), (400, refusal), "{body}");
    };
    for bad in
        [json!(0), json!(1_001), json!(-1), json!(1.5), json!("20"), json!(true), json!([]), json!(1e30)]
    {
        check(json!({ "source": "telegram", "max": bad }), &[max]).await;
        check(json!({ "source": "telegram", "leaseSeconds": bad }), &[lease]).await;
    }
    check(json!({ "source": "telegram", "max": 101 }), &[max]).await;
    for bad in [9, 301] {
        check(json!({ "source": "telegram", "leaseSeconds": bad }), &[lease]).await;
    }
    check(json!({ "source": "telegram", "max": 0, "leaseSeconds": 5 }), &[max, lease]).await;
    check(json!({ "max": 0, "ordered": 1 }), &["source is required", max, "ordered must be true or false"])
        .await;
    check(json!({ "source": "" }), &["source must be a non-empty string"]).await;
    for good in [json!(null), json!(10), json!(100)] {
        let body = json!({ "source": "telegram", "max": good, "leaseSeconds": good });
        assert_eq!(server.post("/outbox/poll", &body).await.status, 200, "{body}");
    }
}

#[tokio::test(start_paused = true)]
async fn defaults_come_from_the_settings() {
    let time = FrozenTime::hold();
    let setup = ServerSetup::echoing().flow(|flow| {
        flow.outbox_poll_default_batch = 2;
        flow.outbox_lease = MINUTE;
    });
    let server = with_replies(setup, &time, &["a", "b", "c"]).await;
    let polled_at = time.now();
    let messages = server.poll(&json!({ "source": "telegram" })).await;
    assert_eq!(messages.len(), 2);
    assert_eq!(row(&server, &messages[0]).await["leaseExpiresAt"], polled_at.after(MINUTE).to_rfc3339());
}

#[tokio::test(start_paused = true)]
async fn settings_out_of_range_are_clamped_and_never_refused() {
    let time = FrozenTime::hold();
    for (configured, lease_seconds) in [(1, 10), (100_000, 300)] {
        let setup = ServerSetup::echoing().flow(move |flow| {
            flow.outbox_poll_default_batch = 0;
            flow.outbox_lease = Duration::from_secs(configured);
        });
        let server = with_replies(setup, &time, &["a", "b"]).await;
        let messages = server.poll(&json!({ "source": "telegram" })).await;
        assert_eq!(messages.len(), 1, "a batch of 0 is a batch of 1");
        let ends_at = time.now().after(Duration::from_secs(lease_seconds)).to_rfc3339();
        assert_eq!(row(&server, &messages[0]).await["leaseExpiresAt"], ends_at);
    }
}

#[tokio::test]
async fn a_batch_setting_of_a_thousand_is_a_batch_of_a_hundred() {
    let server = ServerSetup::echoing()
        .flow(|flow| {
            flow.outbox_poll_default_batch = 1_000;
            flow.max_parallel_topics = 32;
        })
        .start()
        .await;
    let mut ids = Vec::new();
    for number in 0..101 {
        let number = number.to_string();
        ids.push(server.accept(&with(event(&number), "topicKey", json!(number))).await);
    }
    for id in &ids {
        server.ended(id).await;
    }
    assert_eq!(server.poll(&json!({ "source": "telegram" })).await.len(), 100);
    assert_eq!(server.poll(&json!({ "source": "telegram" })).await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn what_is_due_first_goes_first_and_then_what_was_said_first() {
    let time = FrozenTime::hold();
    let server = with_replies(ServerSetup::echoing(), &time, &["a", "b", "c"]).await;
    let first = server.poll(&json!({ "source": "telegram", "max": 1 })).await.remove(0);
    let nack = json!({ "messageId": first["messageId"], "leaseToken": first["leaseToken"] });
    assert_eq!(server.post("/outbox/nack", &nack).await.status, 200);
    time.advance(MINUTE).await;
    server.answered(&with(saying("d", "d"), "topicKey", json!("d"))).await;
    assert_eq!(poll_texts(&server, &json!({ "source": "telegram" })).await, ["b", "c", "a", "d"]);
}

#[tokio::test(start_paused = true)]
async fn a_leased_message_is_handed_out_again_only_when_its_lease_has_ended() {
    let time = FrozenTime::hold();
    let server = with_replies(ServerSetup::echoing(), &time, &["a"]).await;
    let body = json!({ "source": "telegram", "leaseSeconds": 10 });
    let first = server.poll(&body).await.remove(0);
    assert_eq!(row(&server, &first).await["attempts"], 1);
    time.advance(Duration::from_millis(9_999)).await;
    assert_eq!(server.poll(&body).await, Vec::<Value>::new());
    time.advance(Duration::from_millis(1)).await;
    let second = server.poll(&body).await.remove(0);
    assert_eq!(second["messageId"], first["messageId"]);
    assert_ne!(second["leaseToken"], first["leaseToken"]);
    assert_eq!(row(&server, &second).await["attempts"], 2);
}

#[tokio::test(start_paused = true)]
async fn after_exactly_n_claims_a_message_is_dead_and_takes_no_place_in_the_answer() {
    let time = FrozenTime::hold();
    let setup = ServerSetup::echoing().flow(|flow| flow.outbox_max_attempts = 3);
    let server = with_replies(setup, &time, &["a"]).await;
    let body = json!({ "source": "telegram", "max": 1 });
    let mut message = Value::Null;
    for attempt in 1..=3 {
        message = server.poll(&body).await.remove(0);
        assert_eq!(row(&server, &message).await["attempts"], attempt);
        time.advance(MINUTE).await;
    }
    server.answered(&with(saying("b", "b"), "topicKey", json!("b"))).await;
    assert_eq!(poll_texts(&server, &body).await, ["b"]);
    let dead = row(&server, &message).await;
    assert_eq!((&dead["status"], &dead["attempts"]), (&json!("dead"), &json!(4)));
    assert_eq!(dead["lastError"], "not delivered in 3 attempts");
    time.advance(MINUTE).await;
    assert_eq!(poll_texts(&server, &body).await, ["b"], "the dead one never comes back");
}

#[tokio::test]
async fn a_poll_gets_only_messages_of_its_own_source() {
    let server = ServerSetup::echoing().start().await;
    server.answered(&with(saying("1", "for slack"), "source", json!("slack"))).await;
    assert_eq!(poll_texts(&server, &json!({ "source": "telegram" })).await, Vec::<String>::new());
    assert_eq!(poll_texts(&server, &json!({ "source": "slack" })).await, ["for slack"]);
}

#[tokio::test]
async fn pollers_at_once_share_the_messages_without_overlap() {
    let server = ServerSetup::echoing().start().await;
    let mut ids = Vec::new();
    for number in 0..30 {
        let number = number.to_string();
        ids.push(server.accept(&with(event(&number), "topicKey", json!(number))).await);
    }
    for id in &ids {
        server.ended(id).await;
    }
    let mut polls = JoinSet::new();
    for _ in 0..20 {
        polls.spawn(
            server.request("POST", "/outbox/poll").json(&json!({ "source": "telegram", "max": 2 })).send(),
        );
    }
    let mut seen = HashSet::new();
    for answer in polls.join_all().await {
        for message in answer.json()["messages"].as_array().unwrap() {
            assert!(seen.insert(message["messageId"].to_string()), "{message} was handed out twice");
        }
    }
    assert_eq!(seen.len(), 30, "none was left behind");
}

/// Three replies in one topic.
async fn one_topic(time: &FrozenTime) -> RunningTestServer {
    let server = ServerSetup::echoing().at(time).start().await;
    for text in ["1", "2", "3"] {
        server.answered(&saying(text, text)).await;
        time.advance(Duration::from_millis(1)).await;
    }
    server
}

#[tokio::test(start_paused = true)]
async fn an_ordered_poll_holds_back_what_follows_an_undelivered_message() {
    let time = FrozenTime::hold();
    let server = one_topic(&time).await;
    let one = json!({ "source": "telegram", "ordered": true, "max": 1 });
    let first = server.poll(&one).await.remove(0);
    assert_eq!(poll_texts(&server, &one).await, Vec::<String>::new(), "1 is under lease");
    let lease = json!({ "messageId": first["messageId"], "leaseToken": first["leaseToken"] });
    assert_eq!(server.post("/outbox/nack", &lease).await.status, 200);
    assert_eq!(poll_texts(&server, &one).await, Vec::<String>::new(), "1 backs off");
    time.advance(MINUTE).await;
    let first = server.poll(&one).await.remove(0);
    assert_eq!(first["text"], "You said: 1");
    let lease = json!({ "messageId": first["messageId"], "leaseToken": first["leaseToken"] });
    assert_eq!(server.post("/outbox/ack", &lease).await.status, 200);
    assert_eq!(poll_texts(&server, &json!({ "source": "telegram", "ordered": true })).await, ["2", "3"]);
}

#[tokio::test(start_paused = true)]
async fn an_ordered_poll_hands_out_a_topic_in_order_in_one_answer() {
    let time = FrozenTime::hold();
    let server = one_topic(&time).await;
    assert_eq!(poll_texts(&server, &json!({ "source": "telegram", "ordered": true })).await, ["1", "2", "3"]);
}

#[tokio::test(start_paused = true)]
async fn a_plain_poll_overtakes_a_message_that_backs_off() {
    let time = FrozenTime::hold();
    let server = one_topic(&time).await;
    let one = json!({ "source": "telegram", "max": 1 });
    assert_eq!(poll_texts(&server, &one).await, ["1"]);
    assert_eq!(poll_texts(&server, &json!({ "source": "telegram" })).await, ["2", "3"]);
}

#[tokio::test(start_paused = true)]
async fn a_dead_message_no_longer_holds_back_what_follows() {
    let time = FrozenTime::hold();
    let server = one_topic(&time).await;
    let ordered = json!({ "source": "telegram", "ordered": true, "max": 1 });
    let first = server.poll(&ordered).await.remove(0);
    let nack =
        json!({ "messageId": first["messageId"], "leaseToken": first["leaseToken"], "permanent": true });
    assert_eq!(server.post("/outbox/nack", &nack).await.status, 200);
    assert_eq!(poll_texts(&server, &ordered).await, ["2"]);
}

#[tokio::test]
async fn a_poll_for_a_topic_gets_that_topic_alone() {
    let server = ServerSetup::echoing().start().await;
    for (id, topic) in [("1", "garden"), ("2", "shed"), ("3", "garden")] {
        server.answered(&with(saying(id, id), "topicKey", json!(topic))).await;
    }
    let texts = async |body: Value| {
        let messages = server.poll(&body).await;
        messages.iter().map(|message| message["text"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let none = Vec::<String>::new();
    assert_eq!(texts(json!({ "source": "telegram", "topicKey": "attic" })).await, none);
    assert_eq!(texts(json!({ "source": "discord", "topicKey": "garden" })).await, none);
    let garden = json!({ "source": "telegram", "topicKey": "garden", "ordered": true });
    assert_eq!(texts(garden.clone()).await, ["You said: 1", "You said: 3"]);
    assert_eq!(texts(garden).await, none);
    assert_eq!(texts(json!({ "source": "telegram" })).await, ["You said: 2"]);
    for bad in [json!(""), json!(7), json!("x".repeat(513))] {
        let answer = server.post("/outbox/poll", &json!({ "source": "telegram", "topicKey": bad })).await;
        assert_eq!(answer.status, 400, "{bad}: {}", answer.text());
    }
}
