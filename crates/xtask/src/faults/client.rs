//! A connector of the fault runs: speaks the public wire and writes down what it knows.

use super::history::{Ingested, Known, Operation, Record, SentEvent, SentPoll, Settled, Shown};
use super::http::{Answer, Http, Reply};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// The shortest lease the server gives, so that what a crash left leased comes back soonest.
const LEASE: Duration = Duration::from_secs(10);

pub(crate) struct Client {
    http: Http,
    source: String,
    /// Whether polls ask for the order of a topic.
    ordered: bool,
    epoch: Instant,
    pub(crate) history: Vec<Record>,
}

impl Client {
    /// All clients of a run share the epoch, so that their histories can be merged.
    pub(crate) fn new(source: &str, ordered: bool, epoch: Instant) -> Self {
        Self { http: Http::default(), source: source.to_owned(), ordered, epoch, history: Vec::new() }
    }

    pub(crate) fn ingest(&mut self, port: u16, event: &SentEvent) -> Known<Ingested> {
        let body = json!({
            "source": event.source,
            "externalMessageId": event.external_id,
            "idempotencyKey": event.external_id,
            "topicKey": event.topic,
            "userId": "user",
            "text": event.text,
            "occurredAt": "2026-02-15T20:30:00Z",
        });
        let read = |answer: &Answer| {
            let event_id = answer.text("eventId");
            match answer.code {
                202 => Ingested::Queued { event_id },
                200 => Ingested::Duplicate { event_id },
                code => Ingested::Refused { code, error: answer.text("error") },
            }
        };
        self.ask(port, "/ingest", &body, read, |known| Operation::Ingest { event: event.clone(), known })
    }

    pub(crate) fn poll(&mut self, port: u16, max: u32) -> Known<Vec<Shown>> {
        let poll = SentPoll { source: self.source.clone(), lease: LEASE, ordered: self.ordered };
        let body = json!({
            "source": poll.source, "max": max, "leaseSeconds": LEASE.as_secs(), "ordered": poll.ordered,
        });
        let read = |answer: &Answer| {
            let messages = answer.body["messages"].as_array().map(Vec::as_slice).unwrap_or_default();
            messages.iter().map(shown).collect::<Vec<_>>()
        };
        self.ask(port, "/outbox/poll", &body, read, |known| Operation::Poll { poll, known })
    }

    pub(crate) fn ack(&mut self, port: u16, shown: &Shown) -> Known<Settled> {
        let body = json!({"messageId": shown.message, "leaseToken": shown.lease});
        let (message, lease) = (shown.message.clone(), shown.lease.clone());
        self.ask(port, "/outbox/ack", &body, settled, |known| Operation::Ack { message, lease, known })
    }

    pub(crate) fn nack(&mut self, port: u16, shown: &Shown) -> Known<Settled> {
        let body = json!({"messageId": shown.message, "leaseToken": shown.lease, "error": "far side away"});
        let (message, lease) = (shown.message.clone(), shown.lease.clone());
        self.ask(port, "/outbox/nack", &body, settled, |known| Operation::Nack { message, lease, known })
    }

    /// Sends and records. What was never sent is not recorded, and as unknown as a broken connection to the caller.
    fn ask<T: Clone>(
        &mut self,
        port: u16,
        path: &str,
        body: &Value,
        read: impl Fn(&Answer) -> T,
        operation: impl FnOnce(Known<T>) -> Operation,
    ) -> Known<T> {
        let sent = self.epoch.elapsed();
        let known = match self.http.post(port, path, body) {
            Reply::NotSent => return Known::Unknown,
            Reply::Unknown => Known::Unknown,
            Reply::Answered(answer) => Known::Answered(read(&answer)),
        };
        let record = Record { sent, ended: self.epoch.elapsed(), operation: operation(known.clone()) };
        self.history.push(record);
        known
    }
}

fn shown(message: &Value) -> Shown {
    let text = |field: &str| message[field].as_str().unwrap_or_default().to_owned();
    Shown {
        message: text("messageId"),
        lease: text("leaseToken"),
        topic: text("topicKey"),
        text: text("text"),
    }
}

fn settled(answer: &Answer) -> Settled {
    match answer.code {
        200 => Settled::Done,
        409 => Settled::Conflict,
        code => Settled::Refused { code },
    }
}
