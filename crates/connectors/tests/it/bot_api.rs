//! A Bot API that the test owns: it hands out updates, keeps every call, and refuses what it is told to refuse.

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use cortex_testkit::{Json, eventually};
use serde_json::{Value, json};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::sync::Notify;

pub(crate) const TOKEN: &str = "123456:TEST-token-that-must-never-be-seen";
/// The bot's own account.
pub(crate) const BOT_ID: i64 = 99;
pub(crate) const BOT_NAME: &str = "cortex_bot";

/// A call as it came.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) method: String,
    pub(crate) body: Value,
}

/// What the next call of a method meets.
#[derive(Debug, Clone)]
pub(crate) enum Planned {
    Refusal(u16, Value),
    /// It is done, but the answer breaks off.
    Cut,
    /// It is done and answered once the test says so.
    Hold(Arc<Notify>),
}

impl Planned {
    pub(crate) fn refusal(code: u16, description: &str, parameters: Value) -> Self {
        let body =
            json!({"ok": false, "error_code": code, "description": description, "parameters": parameters});
        Self::Refusal(code, body)
    }
}

#[derive(Default)]
struct Book {
    updates: Vec<Value>,
    calls: Vec<Call>,
    plans: BTreeMap<String, VecDeque<Planned>>,
    files: BTreeMap<String, Vec<u8>>,
    messages: i64,
}

#[derive(Clone)]
pub(crate) struct BotApi {
    pub(crate) url: String,
    book: Arc<Mutex<Book>>,
    news: Arc<Notify>,
}

impl BotApi {
    pub(crate) async fn start() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let api = Self { url, book: Arc::default(), news: Arc::default() };
        let routes = Router::new()
            .route("/{bot}/{method}", post(answer))
            .route("/file/{bot}/{*path}", get(file))
            .with_state(api.clone());
        tokio::spawn(async move { axum::serve(listener, routes).await });
        api
    }

    /// Something happens.
    pub(crate) fn happen(&self, update: Value) {
        self.book.lock().unwrap().updates.push(update);
        self.news.notify_waiters();
    }

    /// The next call of this method goes wrong.
    pub(crate) fn plan(&self, method: &str, planned: Planned) {
        self.book.lock().unwrap().plans.entry(method.to_owned()).or_default().push_back(planned);
    }

    pub(crate) fn put_file(&self, id: &str, bytes: &[u8]) {
        self.book.lock().unwrap().files.insert(id.to_owned(), bytes.to_vec());
    }

    pub(crate) fn calls(&self, method: &str) -> Vec<Value> {
        let book = self.book.lock().unwrap();
        book.calls.iter().filter(|call| call.method == method).map(|call| call.body.clone()).collect()
    }

    pub(crate) fn methods(&self) -> Vec<String> {
        self.book.lock().unwrap().calls.iter().map(|call| call.method.clone()).collect()
    }

    /// The texts that were sent, in order.
    pub(crate) fn texts(&self) -> Vec<String> {
        let text = |body: &Value| body["text"].as_str().unwrap().to_owned();
        self.calls("sendMessage").iter().map(text).collect()
    }

    /// The calls of this method, once there are so many.
    #[track_caller]
    pub(crate) fn after(&self, method: &str, count: usize) -> impl Future<Output = Vec<Value>> + use<> {
        let (api, method) = (self.clone(), method.to_owned());
        eventually(format!("{count} × {method}"), move || {
            let calls = api.calls(&method);
            async move { (calls.len() >= count).then_some(calls) }
        })
    }

    /// Everything up to this update was confirmed by a later poll.
    #[track_caller]
    pub(crate) fn confirmed(&self, update_id: i64) -> impl Future<Output = ()> + use<> {
        let api = self.clone();
        eventually(format!("update {update_id} to be confirmed"), move || {
            let is_so = api.calls("getUpdates").iter().any(|poll| poll["offset"].as_i64() > Some(update_id));
            async move { is_so.then_some(()) }
        })
    }

    async fn updates(&self, request: &Value) -> Value {
        let offset = request["offset"].as_i64().unwrap_or(0);
        let until =
            tokio::time::Instant::now() + Duration::from_secs(request["timeout"].as_u64().unwrap_or(0));
        loop {
            let news = self.news.notified();
            {
                let mut book = self.book.lock().unwrap();
                book.updates.retain(|update| update["update_id"].as_i64() >= Some(offset));
                if !book.updates.is_empty() {
                    return Value::from(book.updates.clone());
                }
            }
            if tokio::time::timeout_at(until, news).await.is_err() {
                return json!([]);
            }
        }
    }

    fn result(&self, method: &str, request: &Value) -> Value {
        match method {
            "getMe" => json!({"id": BOT_ID, "is_bot": true, "first_name": "Cortex", "username": BOT_NAME}),
            "sendMessage" => {
                let mut book = self.book.lock().unwrap();
                book.messages += 1;
                json!({"message_id": 1000 + book.messages, "chat": {"id": request["chat_id"]}, "date": 1})
            }
            "getFile" => {
                let id = request["file_id"].as_str().unwrap();
                let size = self.book.lock().unwrap().files.get(id).map(Vec::len);
                json!({"file_id": id, "file_path": format!("documents/{id}"), "file_size": size})
            }
            _ => json!(true),
        }
    }
}

async fn answer(
    State(api): State<BotApi>,
    Path((bot, method)): Path<(String, String)>,
    body: Bytes,
) -> Response {
    if bot != format!("bot{TOKEN}") {
        let body = json!({"ok": false, "error_code": 401, "description": "Unauthorized"});
        return (StatusCode::UNAUTHORIZED, Json(body)).into_response();
    }
    let request: Value = serde_json::from_slice(&body).unwrap_or_default();
    let planned = {
        let mut book = api.book.lock().unwrap();
        book.calls.push(Call { method: method.clone(), body: request.clone() });
        book.plans.get_mut(&method).and_then(VecDeque::pop_front)
    };
    match planned {
        Some(Planned::Refusal(code, body)) => {
            (StatusCode::from_u16(code).unwrap(), Json(body)).into_response()
        }
        Some(Planned::Cut) => {
            let broken = futures::stream::once(async { Err::<Bytes, _>(std::io::Error::other("cut")) });
            Response::new(Body::from_stream(broken))
        }
        Some(Planned::Hold(released)) => {
            released.notified().await;
            Json(json!({"ok": true, "result": api.result(&method, &request)})).into_response()
        }
        None if method == "getUpdates" => {
            Json(json!({"ok": true, "result": api.updates(&request).await})).into_response()
        }
        None => Json(json!({"ok": true, "result": api.result(&method, &request)})).into_response(),
    }
}

async fn file(State(api): State<BotApi>, Path((_, path)): Path<(String, String)>) -> Response {
    let id = path.rsplit('/').next().unwrap().to_owned();
    match api.book.lock().unwrap().files.get(&id) {
        Some(bytes) => bytes.clone().into_response(),
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

/// Somebody writes to the bot in private.
pub(crate) fn message(update_id: i64, user: i64, text: &str) -> Value {
    message_in(update_id, user, json!({"id": user, "type": "private"}), json!({"text": text}))
}

/// Somebody writes in a group.
pub(crate) fn group_message(update_id: i64, user: i64, chat: i64, more: Value) -> Value {
    message_in(update_id, user, json!({"id": chat, "type": "supergroup"}), more)
}

pub(crate) fn message_in(update_id: i64, user: i64, chat: Value, more: Value) -> Value {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let mut message = json!({"message_id": update_id, "date": now, "chat": chat,
        "from": {"id": user, "is_bot": false, "first_name": format!("user {user}")}});
    message.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({"update_id": update_id, "message": message})
}

/// Somebody presses a button under a message.
pub(crate) fn press(update_id: i64, user: i64, chat: i64, message_id: i64, data: &str) -> Value {
    let kind = if chat < 0 { "supergroup" } else { "private" };
    json!({"update_id": update_id, "callback_query": {
        "id": format!("q{update_id}"), "from": {"id": user, "first_name": "user"}, "data": data,
        "message": {"message_id": message_id, "date": 1_700_000_000, "chat": {"id": chat, "type": kind}}}})
}
