//! A small Bot API on loopback: it hands out updates and keeps what is sent.

use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

pub(crate) const TOKEN: &str = "123456:a-token-that-nobody-may-see";
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Clone, Default)]
struct Book(Arc<Mutex<Pages>>);

#[derive(Default)]
struct Pages {
    updates: Vec<Value>,
    sent: Vec<Value>,
}

pub(crate) struct BotApi {
    pub(crate) url: String,
    book: Book,
}

impl BotApi {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let book = Book::default();
        let kept = book.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let book = kept.clone();
                std::thread::spawn(move || book.serve(stream));
            }
        });
        Self { url, book }
    }

    /// Somebody writes to the bot.
    pub(crate) fn say(&self, update_id: i64, user: i64, text: &str) {
        self.book.0.lock().unwrap().updates.push(json!({"update_id": update_id, "message": {
            "message_id": update_id, "date": 1_700_000_000, "text": text,
            "chat": {"id": user, "type": "private"}, "from": {"id": user, "first_name": "Ada"}}}));
    }

    /// What was sent, once it is so many.
    pub(crate) fn sent(&self, count: usize) -> Vec<String> {
        until(&format!("{count} messages"), || {
            let sent: Vec<String> = self
                .book
                .0
                .lock()
                .unwrap()
                .sent
                .iter()
                .map(|body| body["text"].as_str().unwrap().to_owned())
                .collect();
            (sent.len() >= count).then_some(sent)
        })
    }
}

/// Looks until there is something to see.
pub(crate) fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let started = Instant::now();
    loop {
        if let Some(seen) = look() {
            return seen;
        }
        assert!(started.elapsed() < PATIENCE, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

impl Book {
    fn serve(&self, stream: TcpStream) -> Option<()> {
        let mut reader = BufReader::new(stream.try_clone().ok()?);
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let path = line.split(' ').nth(1)?.to_owned();
        let mut length = 0;
        loop {
            let mut header = String::new();
            reader.read_line(&mut header).ok()?;
            let header = header.trim().to_ascii_lowercase();
            if header.is_empty() {
                break;
            }
            if let Some(value) = header.strip_prefix("content-length:") {
                length = value.trim().parse().ok()?;
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).ok()?;
        let request: Value = serde_json::from_slice(&body).unwrap_or_default();
        let method = path.strip_prefix(&format!("/bot{TOKEN}/"));
        let (status, answer) = match method {
            Some(method) => ("200 OK", json!({"ok": true, "result": self.answer(method, &request)})),
            None => {
                ("401 Unauthorized", json!({"ok": false, "error_code": 401, "description": "Unauthorized"}))
            }
        };
        let answer = answer.to_string();
        let head =
            format!("HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n", answer.len());
        (&stream).write_all((head + &answer).as_bytes()).ok()
    }

    fn answer(&self, method: &str, request: &Value) -> Value {
        match method {
            "getMe" => json!({"id": 99, "is_bot": true, "first_name": "Cortex", "username": "cortex_bot"}),
            "getUpdates" => {
                let offset = request["offset"].as_i64().unwrap_or(0);
                let until = Instant::now() + Duration::from_millis(500);
                loop {
                    let mut pages = self.0.lock().unwrap();
                    pages.updates.retain(|update| update["update_id"].as_i64() >= Some(offset));
                    if !pages.updates.is_empty() || Instant::now() > until {
                        return Value::from(pages.updates.clone());
                    }
                    drop(pages);
                    std::thread::sleep(Duration::from_millis(10));
                }
            }
            "sendMessage" => {
                self.0.lock().unwrap().sent.push(request.clone());
                json!({"message_id": 1, "chat": {"id": request["chat_id"]}, "date": 1})
            }
            _ => json!(true),
        }
    }
}
