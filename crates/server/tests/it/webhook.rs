//! Webhooks that go out, to a receiver of the test's own: signed, in order, again until they are taken, and never silent.

use crate::sample::{event, saying, with};
use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use cortex_testkit::{ForeignClients, FrozenTime, RunningTestServer, ServerSetup, eventually};
use http::{HeaderMap, StatusCode};
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// What a receiver does with its next request.
#[derive(Clone, Copy)]
enum Reaction {
    Answer(u16),
    Header(u16, &'static str, &'static str),
    Hang,
}

#[derive(Clone)]
struct Posted {
    headers: HeaderMap,
    body: String,
}

/// A server that takes webhooks; it takes everything once its reactions are used up.
#[derive(Clone, Default)]
struct Receiver {
    posted: Arc<Mutex<Vec<Posted>>>,
    reactions: Arc<Mutex<VecDeque<Reaction>>>,
}

impl Receiver {
    fn reacting(reactions: impl IntoIterator<Item = Reaction>) -> Self {
        Self { reactions: Arc::new(Mutex::new(reactions.into_iter().collect())), ..Self::default() }
    }

    async fn open(&self) -> (SocketAddr, JoinHandle<()>) {
        self.open_at(SocketAddr::from(([127, 0, 0, 1], 0))).await
    }

    async fn open_at(&self, address: SocketAddr) -> (SocketAddr, JoinHandle<()>) {
        let listener = TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new().fallback(receive).with_state(self.clone());
        (address, tokio::spawn(async move { axum::serve(listener, router).await.unwrap() }))
    }

    fn posted(&self) -> Vec<Posted> {
        self.posted.lock().unwrap().clone()
    }

    fn texts(&self) -> Vec<String> {
        self.posted().iter().map(|posted| posted.json()["text"].as_str().unwrap().to_owned()).collect()
    }

    async fn has(&self, count: usize) -> Vec<Posted> {
        eventually(format!("{count} posts"), || async move {
            Some(self.posted()).filter(|posted| posted.len() >= count)
        })
        .await
    }
}

impl Posted {
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }

    fn header(&self, name: &str) -> &str {
        self.headers[name].to_str().unwrap()
    }
}

async fn receive(State(receiver): State<Receiver>, headers: HeaderMap, body: Bytes) -> Response {
    let body = String::from_utf8(body.to_vec()).unwrap();
    receiver.posted.lock().unwrap().push(Posted { headers, body });
    let reaction = receiver.reactions.lock().unwrap().pop_front().unwrap_or(Reaction::Answer(204));
    match reaction {
        Reaction::Answer(status) => StatusCode::from_u16(status).unwrap().into_response(),
        Reaction::Header(status, name, value) => {
            (StatusCode::from_u16(status).unwrap(), [(name, value)]).into_response()
        }
        Reaction::Hang => std::future::pending().await,
    }
}

fn to(address: SocketAddr) -> Value {
    json!({ "chat": { "source": "telegram", "url": format!("http://{address}/in"), "secret": SECRET } })
}

/// The only message of the outbox.
async fn only_row(server: &RunningTestServer) -> Value {
    server.get("/api/v2/outbox").await.json()["items"][0].clone()
}

#[track_caller]
fn settled(server: &RunningTestServer, status: &'static str) -> impl Future<Output = Value> {
    eventually(format!("a message that is {status}"), move || async move {
        Some(only_row(server).await).filter(|row| row["status"] == status)
    })
}

/// Moves time on until the receiver has so many posts.
async fn in_time(time: &FrozenTime, receiver: &Receiver, count: usize) -> Vec<Posted> {
    eventually(format!("{count} posts"), || async move {
        time.advance(Duration::from_secs(1)).await;
        Some(receiver.posted()).filter(|posted| posted.len() >= count)
    })
    .await
}

#[tokio::test]
async fn a_message_is_posted_whole_and_delivered_when_the_receiver_takes_it() {
    let receiver = Receiver::default();
    let (address, _) = receiver.open().await;
    let mut webhooks = to(address);
    webhooks["chat"]["headers"] = json!({ "X-Room": "kitchen" });
    let server = ServerSetup::echoing().webhooks(webhooks).start().await;
    let id = server.answered(&saying("7", "hello")).await;
    let posted = receiver.has(1).await.remove(0);
    let row = settled(&server, "delivered").await;
    let expected = json!({
        "messageId": row["messageId"],
        "source": "telegram",
        "topicKey": "chat-42:thread-root",
        "text": "You said: hello",
        "payload": null,
        "eventId": id,
        "externalMessageId": "7",
        "createdAt": row["createdAt"],
    });
    assert_eq!(posted.json(), expected);
    assert_eq!(posted.header("webhook-id"), row["messageId"].as_str().unwrap());
    assert_eq!((posted.header("content-type"), posted.header("x-room")), ("application/json", "kitchen"));
    assert_eq!(receiver.posted().len(), 1);
}

#[tokio::test]
async fn pypi_standardwebhooks_believes_what_is_posted() {
    let receiver = Receiver::default();
    let (address, _) = receiver.open().await;
    let server = ServerSetup::echoing().webhooks(to(address)).start().await;
    server.answered(&saying("1", "grüße {}")).await;
    let posted = receiver.has(1).await.remove(0);
    let names = ["webhook-id", "webhook-timestamp", "webhook-signature"];
    let headers: serde_json::Map<String, Value> =
        names.iter().map(|name| ((*name).to_owned(), json!(posted.header(name)))).collect();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/script/verify_webhook.py");
    let variables = [
        ("SECRET", SECRET),
        ("BODY", posted.body.as_str()),
        ("HEADERS", &Value::Object(headers).to_string()),
    ];
    let Some(verified) = ForeignClients::Python.run(&script, &variables).await.unwrap() else { return };
    assert_eq!(serde_json::from_str::<Value>(&verified).unwrap(), posted.json());
}

#[tokio::test(start_paused = true)]
async fn a_receiver_that_was_down_gets_everything_in_order_once_it_is_back() {
    let time = FrozenTime::hold();
    let receiver = Receiver::default();
    let (address, open) = receiver.open().await;
    open.abort();
    assert!(open.await.unwrap_err().is_cancelled());
    let server = ServerSetup::echoing().at(&time).webhooks(to(address)).start().await;
    for number in 1..=3 {
        server.answered(&saying(&number.to_string(), &format!("message {number}"))).await;
    }
    let other = with(saying("4", "elsewhere"), "topicKey", json!("other"));
    server.answered(&other).await;
    let failed = eventually("a failed attempt at both topics", || async {
        let rows = server.get("/api/v2/outbox").await.json();
        let failed =
            |row: &Value| row["lastError"].as_str().is_some_and(|error| error.contains("cannot be reached"));
        let count = rows["items"].as_array().unwrap().iter().filter(|row| failed(row)).count();
        (count == 2).then_some(count)
    });
    assert_eq!(failed.await, 2, "what is behind the first of a topic is not tried");
    let (_, _open) = receiver.open_at(address).await;
    in_time(&time, &receiver, 4).await;
    let texts = receiver.texts();
    let of_topic: Vec<&String> = texts.iter().filter(|text| text.contains("message")).collect();
    assert_eq!(of_topic, ["You said: message 1", "You said: message 2", "You said: message 3"]);
    assert_eq!(texts.len(), 4, "{texts:?}");
}

#[tokio::test(start_paused = true)]
async fn a_message_that_is_refused_for_now_comes_again_with_the_same_id_and_body() {
    let time = FrozenTime::hold();
    let refusals = [500, 502, 408, 409, 425].map(Reaction::Answer);
    let receiver = Receiver::reacting(refusals);
    let (address, _) = receiver.open().await;
    let server = ServerSetup::echoing().at(&time).webhooks(to(address)).start().await;
    server.answered(&saying("1", "hello")).await;
    let posted = in_time(&time, &receiver, 6).await;
    for again in &posted[1..] {
        assert_eq!(again.header("webhook-id"), posted[0].header("webhook-id"));
        assert_eq!(again.body, posted[0].body);
        assert_ne!(again.header("webhook-timestamp"), posted[0].header("webhook-timestamp"));
    }
    let row = settled(&server, "delivered").await;
    assert_eq!(row["attempts"], 6);
}

#[tokio::test(start_paused = true)]
async fn retry_after_is_waited_for() {
    let time = FrozenTime::hold();
    let receiver = Receiver::reacting([
        Reaction::Header(429, "retry-after", "100"),
        Reaction::Header(503, "retry-after", "200"),
    ]);
    let (address, _) = receiver.open().await;
    let server = ServerSetup::echoing().at(&time).webhooks(to(address)).start().await;
    server.answered(&event("1")).await;
    let posted = in_time(&time, &receiver, 3).await;
    let moments: Vec<i64> =
        posted.iter().map(|posted| posted.header("webhook-timestamp").parse().unwrap()).collect();
    assert!(moments[1] - moments[0] >= 100 && moments[2] - moments[1] >= 200, "{moments:?}");
}

#[tokio::test]
async fn a_message_that_is_refused_for_good_is_dead_at_once_and_the_next_is_posted() {
    for status in [400, 401, 404, 410, 422] {
        let receiver = Receiver::reacting([Reaction::Answer(status)]);
        let (address, _) = receiver.open().await;
        let mut webhooks = to(address);
        webhooks["chat"]["url"] = json!(format!("http://me:hunter2@{address}/s3cret?token=s3cret"));
        let server = ServerSetup::echoing().webhooks(webhooks).start().await;
        server.answered(&saying("1", "hello")).await;
        let row = settled(&server, "dead").await;
        let error = row["lastError"].as_str().unwrap();
        assert!(error.starts_with(&format!("the receiver answered {status} ")), "{error}");
        server.answered(&saying("2", "next")).await;
        assert_eq!(receiver.has(2).await[1].json()["text"], "You said: next");
    }
}

#[tokio::test]
async fn a_redirect_is_not_followed_and_no_error_shows_the_address() {
    let receiver = Receiver::reacting([Reaction::Header(302, "location", "/elsewhere")]);
    let (address, open) = receiver.open().await;
    let mut webhooks = to(address);
    webhooks["chat"]["url"] = json!(format!("http://me:hunter2@{address}/s3cret?token=s3cret"));
    let server = ServerSetup::echoing().webhooks(webhooks).start().await;
    server.answered(&saying("1", "hello")).await;
    let failed = |row: &Value| row["lastError"].is_string();
    let row = eventually("an error", || async { Some(only_row(&server).await).filter(failed) }).await;
    assert_eq!(row["lastError"], "the receiver answered 302 Found; redirects are not followed");
    assert_eq!((row["status"].as_str(), receiver.posted().len()), (Some("pending"), 1));
    open.abort();
    assert!(open.await.unwrap_err().is_cancelled());
    server.answered(&with(saying("2", "hello"), "topicKey", json!("other"))).await;
    let row = eventually("an error", || async { Some(only_row(&server).await).filter(failed) }).await;
    let error = row["lastError"].as_str().unwrap();
    assert!(error.starts_with("the receiver cannot be reached: "), "{error}");
    for secret in ["hunter2", "s3cret", "whsec", &address.to_string()] {
        assert!(!error.contains(secret), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_receiver_that_says_nothing_is_given_up_and_tried_again() {
    let time = FrozenTime::hold();
    let receiver = Receiver::reacting([Reaction::Hang]);
    let (address, _) = receiver.open().await;
    let mut webhooks = to(address);
    webhooks["chat"]["timeoutMs"] = json!(2_500);
    let server = ServerSetup::echoing().at(&time).webhooks(webhooks).start().await;
    server.answered(&event("1")).await;
    receiver.has(1).await;
    time.advance(Duration::from_millis(2_500)).await;
    let failed = |row: &Value| row["lastError"] == "the receiver did not answer within 2500 ms";
    eventually("the end of its patience", || async { Some(only_row(&server).await).filter(failed) }).await;
    in_time(&time, &receiver, 2).await;
    settled(&server, "delivered").await;
}

#[tokio::test(start_paused = true)]
async fn a_server_that_stops_lets_a_request_end_or_sends_it_again_after_its_start() {
    let time = FrozenTime::hold();
    let receiver = Receiver::reacting([Reaction::Hang]);
    let (address, _) = receiver.open().await;
    let mut server = ServerSetup::echoing().at(&time).webhooks(to(address)).start().await;
    server.answered(&event("1")).await;
    receiver.has(1).await;
    let moving_time = async {
        loop {
            cortex_testkit::pause(Duration::from_millis(5)).await;
            time.advance(Duration::from_secs(1)).await;
        }
    };
    tokio::select! {
        () = server.restart() => {}
        () = moving_time => {}
    }
    let posted = in_time(&time, &receiver, 2).await;
    assert_eq!(posted[0].header("webhook-id"), posted[1].header("webhook-id"));
    settled(&server, "delivered").await;
}

#[tokio::test]
async fn a_dead_message_that_a_person_wants_tried_again_is_posted_again() {
    let receiver = Receiver::reacting([Reaction::Answer(410)]);
    let (address, _) = receiver.open().await;
    let server = ServerSetup::echoing().webhooks(to(address)).start().await;
    server.answered(&event("1")).await;
    let row = settled(&server, "dead").await;
    let path = format!("/api/v2/outbox/{}/retry", row["messageId"].as_str().unwrap());
    assert_eq!(server.post(&path, &json!({})).await.status, 200);
    settled(&server, "delivered").await;
    assert_eq!(receiver.posted().len(), 2);
}
