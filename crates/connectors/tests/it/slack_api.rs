//! A Slack that the test owns: the Web API, and a socket that sends again what was not acknowledged.

use crate::ledger::Ledger;
use axum::Router;
use axum::body::Bytes;
use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade};
use axum::extract::{Path, Query, State};
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get};
use cortex_testkit::{Json, eventually};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use tokio::sync::{Notify, watch};

pub(crate) const BOT_TOKEN: &str = "xoxb-secret-of-the-tests";
pub(crate) const APP_TOKEN: &str = "xapp-secret-of-the-tests";
pub(crate) const ME: &str = "UBOT";

#[derive(Default)]
struct Workspace {
    /// What is to be sent over the socket, and whether it was acknowledged.
    envelopes: Vec<(Value, bool)>,
    /// Messages that were posted, by the name that the poster gave.
    posted: Vec<Value>,
    files: BTreeMap<String, Vec<u8>>,
}

#[derive(Clone)]
pub(crate) struct SlackApi {
    pub(crate) url: String,
    pub(crate) ledger: Ledger,
    workspace: Arc<Mutex<Workspace>>,
    news: Arc<Notify>,
    /// How often the line was cut.
    cuts: watch::Sender<usize>,
}

impl SlackApi {
    pub(crate) async fn start() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/api", listener.local_addr().unwrap());
        let api = Self {
            url,
            ledger: Ledger::default(),
            workspace: Arc::default(),
            news: Arc::default(),
            cuts: watch::channel(0).0,
        };
        let routes = Router::new()
            .route("/api/{method}", any(answer))
            .route("/files/{name}", get(file))
            .route("/socket", get(socket))
            .with_state(api.clone());
        tokio::spawn(async move { axum::serve(listener, routes).await });
        api
    }

    /// Something comes over the socket, now or at the next connection.
    pub(crate) fn happen(&self, kind: &str, payload: Value) {
        let mut workspace = self.workspace.lock().unwrap();
        let id = format!("envelope-{}", workspace.envelopes.len());
        let envelope = json!({"type": kind, "envelope_id": id, "payload": payload});
        workspace.envelopes.push((envelope, false));
        drop(workspace);
        self.news.notify_waiters();
    }

    /// Somebody says something.
    pub(crate) fn say(&self, channel: &str, ts: &str, user: &str, text: &str) {
        self.event(json!({"type": "message", "channel": channel, "ts": ts, "user": user, "text": text}));
    }

    pub(crate) fn event(&self, event: Value) {
        self.happen("events_api", json!({"event_id": format!("Ev{}", event["ts"]), "event": event}));
    }

    /// Somebody presses a button.
    pub(crate) fn press(&self, channel: &str, message: &str, user: &str, data: &str) {
        let payload = json!({"type": "block_actions", "user": {"id": user}, "channel": {"id": channel},
            "container": {"message_ts": message}, "actions": [{"value": data, "action_ts": "1700000009.5"}]});
        self.happen("interactive", payload);
    }

    /// Slack wants us on another line.
    pub(crate) fn send_away(&self, reason: &str) {
        let mut workspace = self.workspace.lock().unwrap();
        workspace.envelopes.push((json!({"type": "disconnect", "reason": reason}), false));
        drop(workspace);
        self.news.notify_waiters();
    }

    /// The line breaks without a word.
    pub(crate) fn cut(&self) {
        self.cuts.send_modify(|cuts| *cuts += 1);
    }

    pub(crate) fn put_file(&self, name: &str, bytes: &[u8]) -> String {
        self.workspace.lock().unwrap().files.insert(name.to_owned(), bytes.to_vec());
        format!("{}/files/{name}", self.url.trim_end_matches("/api"))
    }

    pub(crate) fn acknowledged(&self) -> usize {
        self.workspace
            .lock()
            .unwrap()
            .envelopes
            .iter()
            .filter(|(_, is_acknowledged)| *is_acknowledged)
            .count()
    }

    pub(crate) async fn all_acknowledged(&self) {
        eventually("every envelope to be acknowledged", async || {
            let workspace = self.workspace.lock().unwrap();
            workspace.envelopes.iter().all(|(_, is_acknowledged)| *is_acknowledged).then_some(())
        })
        .await;
    }

    pub(crate) fn posted(&self) -> Vec<Value> {
        self.workspace.lock().unwrap().posted.clone()
    }

    pub(crate) fn texts(&self) -> Vec<String> {
        self.posted().iter().map(|posted| posted["text"].as_str().unwrap().to_owned()).collect()
    }

    pub(crate) async fn posted_after(&self, count: usize) -> Vec<Value> {
        eventually(format!("{count} messages"), async || {
            let posted = self.posted();
            (posted.len() >= count).then_some(posted)
        })
        .await
    }

    fn post(&self, request: &Value) -> Value {
        let mut workspace = self.workspace.lock().unwrap();
        let known = workspace.posted.iter().find(|known| known["client_msg_id"] == request["client_msg_id"]);
        if let Some(known) = known {
            return json!({"ok": true, "ts": known["ts"]});
        }
        let mut message = request.clone();
        message["ts"] = json!(format!("1700000100.{:06}", workspace.posted.len()));
        let ts = message["ts"].clone();
        workspace.posted.push(message);
        json!({"ok": true, "ts": ts})
    }

    fn result(&self, method: &str, request: &Value) -> Value {
        match method {
            "auth.test" => json!({"ok": true, "user_id": ME}),
            "apps.connections.open" => {
                let socket = self.url.replacen("http", "ws", 1).replace("/api", "/socket");
                json!({"ok": true, "url": socket})
            }
            "chat.postMessage" => self.post(request),
            "conversations.history" | "conversations.replies" => {
                json!({"ok": true, "messages": self.posted()})
            }
            _ => json!({"ok": true}),
        }
    }

    async fn talk(self, mut socket: WebSocket) {
        let mut cuts = self.cuts.subscribe();
        cuts.borrow_and_update();
        if socket.send(Message::text(json!({"type": "hello"}).to_string())).await.is_err() {
            return;
        }
        let mut next = 0;
        loop {
            let news = self.news.notified();
            loop {
                let envelope = self.workspace.lock().unwrap().envelopes.get(next).cloned();
                let Some((envelope, is_acknowledged)) = envelope else { break };
                if !is_acknowledged && socket.send(Message::text(envelope.to_string())).await.is_err() {
                    return;
                }
                if envelope["type"] == "disconnect" && !is_acknowledged {
                    self.workspace.lock().unwrap().envelopes[next].1 = true;
                }
                next += 1;
            }
            tokio::select! {
                () = news => {}
                _ = cuts.changed() => return,
                heard = socket.recv() => match heard {
                    Some(Ok(Message::Text(text))) => self.note_acknowledgement(&text),
                    Some(Ok(_)) => {}
                    Some(Err(_)) | None => return,
                },
            }
        }
    }

    fn note_acknowledgement(&self, text: &str) {
        let acknowledged: Value = serde_json::from_str(text).unwrap();
        for (envelope, is_acknowledged) in &mut self.workspace.lock().unwrap().envelopes {
            *is_acknowledged |= envelope["envelope_id"] == acknowledged["envelope_id"];
        }
    }
}

async fn answer(
    State(api): State<SlackApi>,
    Path(method): Path<String>,
    Query(query): Query<BTreeMap<String, String>>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let wanted = if method == "apps.connections.open" { APP_TOKEN } else { BOT_TOKEN };
    if headers.get("authorization").and_then(|key| key.to_str().ok()) != Some(&format!("Bearer {wanted}")) {
        return Json(json!({"ok": false, "error": "invalid_auth"})).into_response();
    }
    let request: Value = serde_json::from_slice(&body).unwrap_or_else(|_| json!(query));
    let planned = api.ledger.note(&method, request.clone()).await;
    match planned {
        // The answer breaks off, and what was asked is done.
        Some(response)
            if response.status().is_success() && !response.headers().contains_key("content-type") =>
        {
            api.result(&method, &request);
            response
        }
        Some(response) => response,
        None => Json(api.result(&method, &request)).into_response(),
    }
}

async fn file(State(api): State<SlackApi>, Path(name): Path<String>, headers: HeaderMap) -> Response {
    let key = headers.get("authorization").and_then(|key| key.to_str().ok());
    let refused = api.ledger.note("file", json!(name)).await;
    match api.workspace.lock().unwrap().files.get(&name) {
        _ if refused.is_some() => refused.unwrap(),
        Some(bytes) if key == Some(&format!("Bearer {BOT_TOKEN}")) => bytes.clone().into_response(),
        Some(_) | None => axum::http::StatusCode::NOT_FOUND.into_response(),
    }
}

async fn socket(State(api): State<SlackApi>, upgrade: WebSocketUpgrade) -> Response {
    upgrade.on_upgrade(|socket| api.talk(socket))
}
