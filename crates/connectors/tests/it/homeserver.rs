//! A homeserver that the test owns: rooms, a timeline, invitations, and files.

use crate::ledger::Ledger;
use axum::Router;
use axum::extract::{Path, Query, Request, State};
use axum::http::StatusCode;
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post, put};
use cortex_testkit::{Json, eventually};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::Notify;

pub(crate) const TOKEN: &str = "syt_secret_of_the_tests";
pub(crate) const ME: &str = "@cortex:x.example";

/// What happened in a room, in the order of the server.
#[derive(Clone)]
struct Entry {
    room: String,
    event: Value,
}

#[derive(Default)]
struct Rooms {
    timeline: Vec<Entry>,
    /// The place in the timeline, the room, and who invites.
    invitations: Vec<(usize, String, String)>,
    members: BTreeMap<String, usize>,
    /// The events that were sent under a name.
    sent: BTreeMap<String, String>,
    files: BTreeMap<String, Vec<u8>>,
}

#[derive(Clone)]
pub(crate) struct TestHomeserver {
    pub(crate) url: String,
    pub(crate) ledger: Ledger,
    rooms: Arc<Mutex<Rooms>>,
    news: Arc<Notify>,
}

impl TestHomeserver {
    pub(crate) async fn start() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let server = Self { url, ledger: Ledger::default(), rooms: Arc::default(), news: Arc::default() };
        let rooms = Router::new()
            .route("/send/m.room.message/{txn}", put(send))
            .route("/typing/{user}", put(typing))
            .route("/messages", get(messages))
            .route("/event/{id}", get(event))
            .route("/joined_members", get(joined_members));
        let routes = Router::new()
            .route("/_matrix/client/v3/account/whoami", get(whoami))
            .route("/_matrix/client/v3/profile/{user}/displayname", get(name))
            .route("/_matrix/client/v3/sync", get(sync))
            .route("/_matrix/client/v3/join/{room}", post(join))
            .route("/_matrix/client/v1/media/download/{server}/{media}", get(download))
            .nest("/_matrix/client/v3/rooms/{room}", rooms)
            .layer(from_fn(only_with_token))
            .with_state(server.clone());
        tokio::spawn(async move { axum::serve(listener, routes).await });
        server
    }

    /// Something happens in a room.
    pub(crate) fn happen(&self, room: &str, event: Value) {
        self.rooms.lock().unwrap().timeline.push(Entry { room: room.to_owned(), event });
        self.news.notify_waiters();
    }

    /// Somebody says something.
    pub(crate) fn say(&self, room: &str, id: &str, sender: &str, text: &str) {
        self.happen(room, message(id, sender, json!({"msgtype": "m.text", "body": text})));
    }

    pub(crate) fn invite(&self, room: &str, by: &str) {
        let invite = json!({"event_id": format!("$invite-{room}"), "sender": by, "type": "m.room.member",
            "state_key": ME, "origin_server_ts": 1, "content": {"membership": "invite"}});
        let mut rooms = self.rooms.lock().unwrap();
        let at = rooms.timeline.len();
        rooms.invitations.push((at, room.to_owned(), by.to_owned()));
        rooms.timeline.push(Entry { room: room.to_owned(), event: invite });
        drop(rooms);
        self.news.notify_waiters();
    }

    pub(crate) fn has_members(&self, room: &str, count: usize) {
        self.rooms.lock().unwrap().members.insert(room.to_owned(), count);
    }

    pub(crate) fn put_file(&self, media: &str, bytes: &[u8]) {
        self.rooms.lock().unwrap().files.insert(media.to_owned(), bytes.to_vec());
    }

    /// The bodies that were sent, in order.
    pub(crate) fn texts(&self) -> Vec<String> {
        let own =
            |entry: &Entry| (entry.event["sender"] == ME).then(|| entry.event["content"]["body"].clone());
        let rooms = self.rooms.lock().unwrap();
        rooms.timeline.iter().filter_map(own).filter_map(|body| body.as_str().map(str::to_owned)).collect()
    }

    pub(crate) async fn texts_after(&self, count: usize) -> Vec<String> {
        eventually(format!("{count} messages"), async || {
            let texts = self.texts();
            (texts.len() >= count).then_some(texts)
        })
        .await
    }

    /// Everything that has happened so far was confirmed by a later sync.
    pub(crate) async fn confirmed(&self) {
        let wanted = self.rooms.lock().unwrap().timeline.len();
        eventually("a later sync", async || {
            let since = |call: &Value| position(call["since"].as_str().unwrap_or_default());
            self.ledger.calls("sync").iter().filter_map(since).any(|at| at >= wanted).then_some(())
        })
        .await;
    }

    async fn sync(&self, since: Option<usize>, limit: usize, timeout: Duration) -> Value {
        let until = tokio::time::Instant::now() + timeout;
        loop {
            let news = self.news.notified();
            let answer = self.rooms.lock().unwrap().since(since.unwrap_or(0), limit);
            let has_news = answer["rooms"]["join"] != json!({}) || answer["rooms"]["invite"] != json!({});
            if has_news || since.is_none() || tokio::time::timeout_at(until, news).await.is_err() {
                return answer;
            }
        }
    }
}

impl Rooms {
    fn since(&self, start: usize, limit: usize) -> Value {
        let mut join: BTreeMap<&str, Vec<(usize, &Value)>> = BTreeMap::new();
        for (at, entry) in self.timeline.iter().enumerate().skip(start) {
            join.entry(&entry.room).or_default().push((at, &entry.event));
        }
        let join: BTreeMap<&str, Value> = join
            .into_iter()
            .map(|(room, events)| {
                let first = events.len().saturating_sub(limit);
                let shown: Vec<&Value> = events[first..].iter().map(|(_, event)| *event).collect();
                let before = events.get(first).map_or(self.timeline.len(), |(at, _)| *at);
                (room, json!({"timeline": {"events": shown, "limited": first > 0, "prev_batch": format!("s{before}")}}))
            })
            .collect();
        let invite: BTreeMap<&str, Value> = self
            .invitations
            .iter()
            .filter(|(at, _, _)| *at >= start)
            .map(|(_, room, by)| {
                let event = json!({"sender": by, "type": "m.room.member", "state_key": ME,
                    "content": {"membership": "invite"}});
                (room.as_str(), json!({"invite_state": {"events": [{"odd": true}, event]}}))
            })
            .collect();
        json!({"next_batch": format!("s{}", self.timeline.len()), "rooms": {"join": join, "invite": invite}})
    }
}

/// A message of somebody.
pub(crate) fn message(id: &str, sender: &str, content: Value) -> Value {
    json!({"event_id": id, "sender": sender, "type": "m.room.message", "origin_server_ts": 1_700_000_000_000_i64,
        "content": content})
}

/// A sign under a message.
pub(crate) fn reaction(id: &str, sender: &str, under: &str, key: &str) -> Value {
    json!({"event_id": id, "sender": sender, "type": "m.reaction", "origin_server_ts": 1_700_000_000_000_i64,
        "content": {"m.relates_to": {"rel_type": "m.annotation", "event_id": under, "key": key}}})
}

fn position(token: &str) -> Option<usize> {
    token.strip_prefix('s')?.parse().ok()
}

type Parameters = Query<BTreeMap<String, String>>;

async fn only_with_token(request: Request, next: Next) -> Response {
    let key = request.headers().get("authorization").and_then(|value| value.to_str().ok());
    if key == Some(&format!("Bearer {TOKEN}")) {
        return next.run(request).await;
    }
    let body = json!({"errcode": "M_UNKNOWN_TOKEN", "error": "Unknown token"});
    (StatusCode::UNAUTHORIZED, Json(body)).into_response()
}

fn missing() -> Response {
    (StatusCode::NOT_FOUND, Json(json!({"errcode": "M_NOT_FOUND", "error": "not found"}))).into_response()
}

async fn whoami(State(server): State<TestHomeserver>) -> Response {
    let planned = server.ledger.note("whoami", json!({})).await;
    planned.unwrap_or_else(|| Json(json!({"user_id": ME})).into_response())
}

async fn name() -> Response {
    Json(json!({"displayname": "Cortex"})).into_response()
}

async fn sync(State(server): State<TestHomeserver>, Query(parameters): Parameters) -> Response {
    if let Some(planned) = server.ledger.note("sync", json!(parameters)).await {
        return planned;
    }
    let filter: Value = serde_json::from_str(&parameters["filter"]).unwrap();
    let limit = usize::try_from(filter["room"]["timeline"]["limit"].as_u64().unwrap()).unwrap();
    let timeout = Duration::from_millis(parameters["timeout"].parse().unwrap());
    let since = parameters.get("since").map(|token| position(token).unwrap());
    Json(server.sync(since, limit, timeout).await).into_response()
}

async fn send(
    State(server): State<TestHomeserver>,
    Path((room, txn)): Path<(String, String)>,
    Json(content): Json<Value>,
) -> Response {
    let call = json!({"room": room, "txn": txn, "content": content});
    let planned = server.ledger.note("send", call).await;
    if planned.as_ref().is_some_and(|response| response.status() != StatusCode::OK) {
        return planned.unwrap();
    }
    let mut rooms = server.rooms.lock().unwrap();
    let next = format!("$sent-{}", rooms.sent.len());
    let is_new = !rooms.sent.contains_key(&txn);
    let id = rooms.sent.entry(txn).or_insert(next).clone();
    if is_new {
        rooms.timeline.push(Entry { room, event: message(&id, ME, content) });
        server.news.notify_waiters();
    }
    planned.unwrap_or_else(|| Json(json!({"event_id": id})).into_response())
}

async fn typing(
    State(server): State<TestHomeserver>,
    Path((room, user)): Path<(String, String)>,
    Json(body): Json<Value>,
) -> Response {
    let planned = server.ledger.note("typing", json!({"room": room, "user": user, "body": body})).await;
    planned.unwrap_or_else(|| Json(json!({})).into_response())
}

async fn join(State(server): State<TestHomeserver>, Path(room): Path<String>) -> Response {
    let planned = server.ledger.note("join", json!(room)).await;
    planned.unwrap_or_else(|| Json(json!({"room_id": room})).into_response())
}

async fn messages(
    State(server): State<TestHomeserver>,
    Path(room): Path<String>,
    Query(parameters): Parameters,
) -> Response {
    if let Some(planned) = server.ledger.note("messages", json!(parameters)).await {
        return planned;
    }
    let (from, to) = (position(&parameters["from"]).unwrap(), position(&parameters["to"]).unwrap());
    let rooms = server.rooms.lock().unwrap();
    // Pages of three, so that a test sees them turned.
    let older = (to..from).rev().filter(|at| rooms.timeline[*at].room == room).take(3).collect::<Vec<_>>();
    let chunk: Vec<&Value> = older.iter().map(|at| &rooms.timeline[*at].event).collect();
    let end = older.last().map(|at| format!("s{at}"));
    Json(json!({"chunk": chunk, "end": end})).into_response()
}

async fn event(State(server): State<TestHomeserver>, Path((_, id)): Path<(String, String)>) -> Response {
    let rooms = server.rooms.lock().unwrap();
    match rooms.timeline.iter().find(|entry| entry.event["event_id"] == id.as_str()) {
        Some(entry) => Json(entry.event.clone()).into_response(),
        None => missing(),
    }
}

async fn joined_members(State(server): State<TestHomeserver>, Path(room): Path<String>) -> Response {
    let count = server.rooms.lock().unwrap().members.get(&room).copied().unwrap_or(2);
    let joined: BTreeMap<String, Value> =
        (0..count).map(|index| (format!("@{index}:x"), json!({}))).collect();
    Json(json!({"joined": joined})).into_response()
}

async fn download(
    State(server): State<TestHomeserver>,
    Path((_, media)): Path<(String, String)>,
) -> Response {
    if let Some(planned) = server.ledger.note("download", json!(media)).await {
        return planned;
    }
    match server.rooms.lock().unwrap().files.get(&media) {
        Some(bytes) => bytes.clone().into_response(),
        None => missing(),
    }
}
