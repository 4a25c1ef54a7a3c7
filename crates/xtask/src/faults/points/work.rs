//! The load of L3: a connector that walks past every point.

use super::{DRAIN_PATIENCE, memory};
use crate::faults::client::Client;
use crate::faults::expected::{asking_text, refused_text, text_with_tools};
use crate::faults::history::{Known, SentEvent, Settled, Shown};
use crate::faults::http::{Http, Reply};
use crate::faults::server::Server;
use anyhow::{Result, ensure};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// What the one scheduled event says.
pub(super) const SCHEDULED: &str = "say scheduled";

const SOURCE: &str = "gamma";
/// How long the workload may take to come to a point.
const POINT_PATIENCE: Duration = Duration::from_secs(12);
const SCHEDULED_AFTER: SignedDuration = SignedDuration::from_millis(300);
/// One message for each event, and for each that asks also the question and what was decided.
const MESSAGES: usize = 15;

/// Events of every kind, questions and their approvals, a schedule, duplicates, polls, acks and, at the end, a nack; then
/// what memory does.
pub(super) struct Work {
    pub(super) client: Client,
    http: Http,
    events: Vec<SentEvent>,
    /// Acks and nacks whose outcome is unknown.
    open: Vec<(Shown, Verdict)>,
}

#[derive(Clone, Copy)]
enum Verdict {
    Ack,
    Nack,
}

impl Work {
    pub(super) fn new() -> Self {
        let event = |name: &str, topic: &str, text: String| SentEvent {
            source: SOURCE.to_owned(),
            external_id: name.to_owned(),
            topic: topic.to_owned(),
            text,
        };
        let plain = |name: &str, topic| event(name, topic, format!("say {name}"));
        let events = vec![
            plain("one", "a"),
            event("two", "b", text_with_tools("two")),
            event("three", "c", refused_text("three")),
            plain("four", "a"),
            event("five", "b", text_with_tools("five")),
            event("six", "a", text_with_tools("six")),
            plain("seven", "b"),
            event("eight", "d", memory::LIKING.to_owned()),
            event("nine", "e", asking_text("nine")),
            event("ten", "f", asking_text("ten")),
        ];
        let client = Client::new(SOURCE, true, Instant::now());
        Self { client, http: Http::default(), events, open: Vec::new() }
    }

    /// Works until the server is gone or everything was done without reaching the point.
    pub(super) fn until_it_ends(&mut self, server: &mut Server) -> Result<()> {
        let started = Instant::now();
        let port = server.port;
        self.schedule(port);
        for event in self.events.clone() {
            if self.client.ingest(port, &event) == Known::Unknown {
                return gone(server);
            }
        }
        let (mut delivered, wanted) = (0, MESSAGES);
        while delivered < wanted && started.elapsed() < POINT_PATIENCE {
            self.approve_all(port);
            let Known::Answered(messages) = self.client.poll(port, 2) else { return gone(server) };
            for message in messages {
                // The last one fails, so that only a run that came so far waits for its retry.
                delivered += 1;
                let verdict = if delivered == wanted { Verdict::Nack } else { Verdict::Ack };
                if !self.settle(port, message, verdict) {
                    return gone(server);
                }
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        if memory::walk(&mut self.http, port) { Ok(()) } else { gone(server) }
    }

    /// `false` when the outcome is unknown.
    fn settle(&mut self, port: u16, message: Shown, verdict: Verdict) -> bool {
        let known = match verdict {
            Verdict::Ack => self.client.ack(port, &message),
            Verdict::Nack => self.client.nack(port, &message),
        };
        let is_known = matches!(known, Known::Answered(Settled::Done | Settled::Conflict));
        if !is_known {
            self.open.push((message, verdict));
        }
        is_known
    }

    /// Sends everything again, settles what was unknown, and delivers the rest.
    pub(super) fn finish(&mut self, server: &Server) -> Result<()> {
        let port = server.port;
        for event in self.events.clone() {
            let known = self.client.ingest(port, &event);
            ensure!(known != Known::Unknown, "the healed server broke a connection");
        }
        for (message, verdict) in std::mem::take(&mut self.open) {
            ensure!(self.settle(port, message, verdict), "the healed server does not settle");
        }
        let (started, mut http) = (Instant::now(), Http::default());
        while !(self.has_fired(port) && server.is_drained(&mut http)) {
            ensure!(started.elapsed() < DRAIN_PATIENCE, "the healed server did not drain");
            // On a busy machine the moment may be over before the server reads of it, and is refused.
            if !self.is_scheduled(port) {
                self.schedule(port);
            }
            self.approve_all(port);
            if let Known::Answered(messages) = self.client.poll(port, 20) {
                for message in messages {
                    self.settle(port, message, Verdict::Ack);
                }
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        ensure!(memory::walk(&mut self.http, port), "the healed server does not remember");
        Ok(())
    }

    /// What is wrong with what the server remembers in the end.
    pub(super) fn memory_complaints(&mut self, port: u16) -> Vec<String> {
        memory::complaints(&mut self.http, port)
    }

    /// One run, soon; its event comes from the server itself.
    fn schedule(&mut self, port: u16) {
        let run_at = (Timestamp::now() + SCHEDULED_AFTER).to_string();
        let job = json!({"runAt": run_at, "what": SCHEDULED, "source": SOURCE, "topicKey": "g"});
        self.http.post(port, "/api/v2/schedules", &job);
    }

    fn is_scheduled(&mut self, port: u16) -> bool {
        self.jobs(port).iter().any(|job| job["description"] == SCHEDULED)
    }

    fn has_fired(&mut self, port: u16) -> bool {
        let jobs = self.jobs(port);
        jobs.iter().any(|job| job["description"] == SCHEDULED && job["lastRunAt"].is_string())
    }

    fn jobs(&mut self, port: u16) -> Vec<Value> {
        items(self.http.get(port, "/api/v2/schedules"))
    }

    fn approve_all(&mut self, port: u16) {
        for question in items(self.http.get(port, "/api/v2/approvals")) {
            let id = question["approvalId"].as_str().unwrap_or_default();
            self.http.post(port, &format!("/api/v2/approvals/{id}/approve"), &json!({}));
        }
    }
}

fn items(reply: Reply) -> Vec<Value> {
    match reply {
        Reply::Answered(answer) => answer.body["items"].as_array().cloned().unwrap_or_default(),
        Reply::NotSent | Reply::Unknown => Vec::new(),
    }
}

/// A broken connection means that the process is going; its exit follows.
fn gone(server: &mut Server) -> Result<()> {
    let started = Instant::now();
    while !server.has_ended()? && started.elapsed() < Duration::from_secs(5) {
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}
