//! A Discord that the test owns: a gateway with sessions that can be taken up again, and the REST API.

use crate::ledger::Ledger;
use axum::Router;
use axum::body::Bytes;
use axum::extract::ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade};
use axum::extract::{Query, Request, State};
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use cortex_testkit::{Json, eventually};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use tokio::sync::{Notify, watch};

pub(crate) const TOKEN: &str = "secret.of.the-tests";
pub(crate) const ME: &str = "99";

#[derive(Default)]
struct Guild {
    /// The number of the session that can be taken up again; none when it is forgotten.
    session: Option<usize>,
    sessions: usize,
    /// What was dispatched in the session, numbered from one.
    dispatched: Vec<Value>,
    /// What was said, in every channel.
    said: Vec<Value>,
    posted: Vec<Value>,
    files: BTreeMap<String, Vec<u8>>,
    /// The numbers that heartbeats confirmed.
    beats: Vec<Value>,
    is_deaf_to_beats: bool,
    beats_fast: bool,
}

#[derive(Clone)]
pub(crate) struct DiscordApi {
    pub(crate) url: String,
    pub(crate) ledger: Ledger,
    guild: Arc<Mutex<Guild>>,
    news: Arc<Notify>,
    /// How often the line was cut, and with which frame.
    cuts: watch::Sender<(usize, Cut)>,
}

/// How a line ends.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Cut {
    Silently,
    Close(u16),
    Reconnect,
}

impl DiscordApi {
    pub(crate) async fn start() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/api/v10", listener.local_addr().unwrap());
        let api = Self {
            url,
            ledger: Ledger::default(),
            guild: Arc::default(),
            news: Arc::default(),
            cuts: watch::channel((0, Cut::Silently)).0,
        };
        let rest = Router::new().fallback(answer).layer(from_fn(only_with_token));
        let routes = Router::new()
            .nest("/api/v10", rest)
            .route("/gateway", get(gateway))
            .route("/files/{name}", get(file))
            .with_state(api.clone());
        tokio::spawn(async move { axum::serve(listener, routes).await });
        api
    }

    /// Something is dispatched in the session.
    pub(crate) fn dispatch(&self, kind: &str, data: Value) {
        let mut guild = self.guild.lock().unwrap();
        let seq = guild.dispatched.len() + 1;
        guild.dispatched.push(json!({"op": 0, "s": seq, "t": kind, "d": data}));
        drop(guild);
        self.news.notify_waiters();
    }

    /// Somebody says something.
    pub(crate) fn say(&self, message: Value) {
        self.guild.lock().unwrap().said.push(message.clone());
        self.dispatch("MESSAGE_CREATE", message);
    }

    /// Somebody says something while there is no session to hear it.
    pub(crate) fn say_unheard(&self, message: Value) {
        let mut guild = self.guild.lock().unwrap();
        guild.session = None;
        guild.said.push(message);
    }

    /// Somebody presses a button.
    pub(crate) fn press(&self, id: &str, channel: &str, message: &str, user: &str, data: &str) {
        let interaction = json!({"id": id, "token": "interaction-token", "type": 3, "channel_id": channel,
            "guild_id": "7", "member": {"user": {"id": user}}, "message": {"id": message},
            "data": {"custom_id": data}});
        self.dispatch("INTERACTION_CREATE", interaction);
    }

    pub(crate) fn cut(&self, how: Cut) {
        self.cuts.send_modify(|(cuts, last)| (*cuts, *last) = (*cuts + 1, how));
    }

    /// From the next connection on.
    pub(crate) fn wants_many_beats(&self) {
        self.guild.lock().unwrap().beats_fast = true;
    }

    pub(crate) fn ignore_beats(&self) {
        self.guild.lock().unwrap().is_deaf_to_beats = true;
    }

    pub(crate) fn beats(&self) -> Vec<Value> {
        self.guild.lock().unwrap().beats.clone()
    }

    pub(crate) fn put_file(&self, name: &str, bytes: &[u8]) -> String {
        self.guild.lock().unwrap().files.insert(name.to_owned(), bytes.to_vec());
        format!("{}/files/{name}", self.url.trim_end_matches("/api/v10"))
    }

    pub(crate) fn texts(&self) -> Vec<String> {
        let guild = self.guild.lock().unwrap();
        guild.posted.iter().map(|posted| posted["content"].as_str().unwrap().to_owned()).collect()
    }

    pub(crate) fn posted(&self) -> Vec<Value> {
        self.guild.lock().unwrap().posted.clone()
    }

    pub(crate) async fn posted_after(&self, count: usize) -> Vec<Value> {
        eventually(format!("{count} messages"), async || {
            let posted = self.posted();
            (posted.len() >= count).then_some(posted)
        })
        .await
    }

    fn post(&self, channel: &str, request: &Value) -> Value {
        let mut guild = self.guild.lock().unwrap();
        if let Some(known) = guild.posted.iter().find(|known| known["nonce"] == request["nonce"]) {
            return known.clone();
        }
        let mut message = request.clone();
        message["id"] = json!((5_000 + guild.posted.len()).to_string());
        message["channel_id"] = json!(channel);
        guild.posted.push(message.clone());
        message
    }

    fn messages_after(&self, channel: &str, after: u64) -> Value {
        let guild = self.guild.lock().unwrap();
        let id = |message: &Value| message["id"].as_str().unwrap().parse::<u64>().unwrap();
        let of_channel = guild.said.iter().filter(|said| said["channel_id"] == channel && id(said) > after);
        // The newest first, and without the guild, as Discord does.
        let mut found: Vec<Value> = of_channel.cloned().collect();
        for message in &mut found {
            message.as_object_mut().unwrap().remove("guild_id");
        }
        found.reverse();
        json!(found)
    }

    /// The answer to identify or resume: what is sent, and from which dispatch on.
    fn greet(&self, first: &Value) -> Result<(Vec<Value>, usize), u16> {
        let mut guild = self.guild.lock().unwrap();
        if first["d"]["token"] != TOKEN {
            return Err(4004);
        }
        if first["op"] == 6 {
            let known = guild.session.map(|number| json!(format!("session-{number}")));
            let seq = usize::try_from(first["d"]["seq"].as_u64().unwrap()).unwrap();
            return match known == Some(first["d"]["session_id"].clone()) {
                true => Ok((Vec::new(), seq)),
                false => Ok((vec![json!({"op": 9, "d": false})], usize::MAX)),
            };
        }
        guild.sessions += 1;
        guild.session = Some(guild.sessions);
        let url = self.url.replacen("http", "ws", 1).replace("/api/v10", "/gateway");
        let ready = json!({"session_id": format!("session-{}", guild.sessions), "resume_gateway_url": url});
        guild.dispatched = vec![json!({"op": 0, "s": 1, "t": "READY", "d": ready})];
        Ok((Vec::new(), 0))
    }

    async fn talk(self, mut socket: WebSocket) -> Option<()> {
        let mut cuts = self.cuts.subscribe();
        cuts.borrow_and_update();
        let beat = if self.guild.lock().unwrap().beats_fast { 200 } else { 45_000 };
        send(&mut socket, &json!({"op": 10, "d": {"heartbeat_interval": beat}})).await?;
        let first = loop {
            let frame: Value = heard(&mut socket).await?;
            if frame["op"] != 1 {
                break frame;
            }
        };
        self.ledger.note(if first["op"] == 6 { "resume" } else { "identify" }, first["d"].clone()).await;
        let (greeting, mut next) = match self.greet(&first) {
            Ok(greeting) => greeting,
            Err(code) => return close(&mut socket, code).await,
        };
        for frame in greeting {
            send(&mut socket, &frame).await?;
        }
        loop {
            let news = self.news.notified();
            loop {
                let frame = self.guild.lock().unwrap().dispatched.get(next).cloned();
                let Some(frame) = frame else { break };
                send(&mut socket, &frame).await?;
                next += 1;
            }
            tokio::select! {
                () = news => {}
                _ = cuts.changed() => {
                    let (_, how) = *cuts.borrow_and_update();
                    return match how {
                        Cut::Silently => None,
                        Cut::Close(code) => close(&mut socket, code).await,
                        Cut::Reconnect => send(&mut socket, &json!({"op": 7, "d": null})).await,
                    };
                }
                frame = heard(&mut socket) => {
                    let frame = frame?;
                    if frame["op"] == 1 {
                        let is_deaf = {
                            let mut guild = self.guild.lock().unwrap();
                            guild.beats.push(frame["d"].clone());
                            guild.is_deaf_to_beats
                        };
                        if !is_deaf {
                            send(&mut socket, &json!({"op": 11})).await?;
                        }
                    }
                }
            }
        }
    }
}

async fn send(socket: &mut WebSocket, frame: &Value) -> Option<()> {
    socket.send(Message::text(frame.to_string())).await.ok()
}

async fn close(socket: &mut WebSocket, code: u16) -> Option<()> {
    socket.send(Message::Close(Some(CloseFrame { code, reason: "".into() }))).await.ok()
}

async fn heard(socket: &mut WebSocket) -> Option<Value> {
    loop {
        match socket.recv().await?.ok()? {
            Message::Text(text) => return serde_json::from_str(&text).ok(),
            Message::Close(_) => return None,
            Message::Binary(_) | Message::Ping(_) | Message::Pong(_) => {}
        }
    }
}

async fn only_with_token(request: Request, next: Next) -> Response {
    let key = request.headers().get("authorization").and_then(|key| key.to_str().ok());
    if key == Some(&format!("Bot {TOKEN}")) {
        return next.run(request).await;
    }
    (StatusCode::UNAUTHORIZED, Json(json!({"message": "401: Unauthorized", "code": 0}))).into_response()
}

async fn answer(
    State(api): State<DiscordApi>,
    method: Method,
    uri: Uri,
    Query(query): Query<BTreeMap<String, String>>,
    body: Bytes,
) -> Response {
    let path: Vec<&str> = uri.path().trim_start_matches('/').split('/').collect();
    let request: Value = serde_json::from_slice(&body).unwrap_or(Value::Null);
    let (name, result) = match (&method, path.as_slice()) {
        (&Method::GET, ["users", "@me"]) => ("me", json!({"id": ME, "username": "cortex"})),
        (&Method::GET, ["gateway", "bot"]) => {
            let url = api.url.replacen("http", "ws", 1).replace("/api/v10", "/gateway");
            ("gateway", json!({"url": url, "session_start_limit": {"remaining": 9, "reset_after": 1}}))
        }
        (&Method::GET, ["channels", channel, "messages"]) => {
            ("messages", api.messages_after(channel, query["after"].parse().unwrap()))
        }
        (&Method::POST, ["channels", _, "messages"]) => ("post", Value::Null),
        (&Method::POST, ["channels", _, "typing"]) => ("typing", Value::Null),
        (&Method::POST, ["interactions", _, "interaction-token", "callback"]) => ("callback", Value::Null),
        (&Method::PATCH, ["channels", _, "messages", _]) => ("edit", json!({})),
        _ => return StatusCode::NOT_FOUND.into_response(),
    };
    let call = json!({"path": uri.path(), "body": request});
    let planned = api.ledger.note(name, call).await;
    match planned {
        Some(response) if !response.status().is_success() => response,
        planned => {
            let result = if name == "post" { api.post(path[1], &request) } else { result };
            planned.unwrap_or_else(|| Json(result).into_response())
        }
    }
}

async fn file(
    State(api): State<DiscordApi>,
    axum::extract::Path(name): axum::extract::Path<String>,
    headers: HeaderMap,
) -> Response {
    assert!(!headers.contains_key("authorization"), "a file's address opens itself");
    api.ledger.note("file", json!(name)).await;
    match api.guild.lock().unwrap().files.get(&name) {
        Some(bytes) => bytes.clone().into_response(),
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

async fn gateway(State(api): State<DiscordApi>, upgrade: WebSocketUpgrade) -> Response {
    upgrade.on_upgrade(async |socket| {
        // `None` says only that the line ended.
        api.talk(socket).await.unwrap_or_default();
    })
}
