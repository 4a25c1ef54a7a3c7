//! Runs trials one after another in a home of its own: an event, its approval, a kill, and a server that heals it.

use super::Journal;
use super::counter::Counter;
use super::kill::{Armed, Kill, Point};
use super::setting::{self, TOOL};
use super::verdict::{Ending, Progress, Seen};
use crate::faults::client::Client;
use crate::faults::database;
use crate::faults::history::{Ingested, Known, SentEvent};
use crate::faults::http::{Http, Reply};
use crate::faults::server::{Home, Server};
use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::time::{Duration, Instant};
use tempfile::TempDir;

const SOURCE: &str = "gamma";
const PATIENCE: Duration = Duration::from_secs(30);
const LOOK_AGAIN: Duration = Duration::from_millis(2);
/// The words of the product for what nobody knows.
const NOTICE: &str = "may have run";

/// One event whose call is cut short in one way.
pub(crate) struct Trial {
    pub(crate) name: String,
    pub(crate) kill: Kill,
}

impl Trial {
    pub(crate) fn new((number, kill): (usize, Kill)) -> Self {
        Self { name: format!("n{number}"), kill }
    }

    fn event(&self) -> SentEvent {
        SentEvent {
            source: SOURCE.to_owned(),
            external_id: self.name.clone(),
            topic: self.name.clone(),
            text: setting::text(&self.name),
        }
    }
}

impl fmt::Display for Trial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name, self.kill)
    }
}

pub(crate) struct Runner<'a> {
    home: Home,
    /// A server without a fault, when one is up.
    server: Option<Server>,
    counter: &'a Counter,
    journal: Journal,
    /// What the control puts back.
    before_the_crash: Option<TempDir>,
    http: Http,
    client: Client,
    /// What the user was sent, by topic.
    messages: BTreeMap<String, Vec<String>>,
}

impl<'a> Runner<'a> {
    pub(crate) fn new(
        program: &Path,
        counter: &'a Counter,
        names: &[String],
        journal: Journal,
    ) -> Result<Self> {
        let home = setting::home(program, counter.port, names)?;
        let client = Client::new(SOURCE, true, Instant::now());
        let (http, messages) = (Http::default(), BTreeMap::new());
        Ok(Self { home, server: None, counter, journal, before_the_crash: None, http, client, messages })
    }

    pub(crate) fn run(&mut self, trial: &Trial) -> Result<Seen> {
        self.cut_short(trial).with_context(|| trial.to_string())?;
        let kinds = database::steps_of(&self.home.path(), &trial.name)?;
        if let Some(before) = self.before_the_crash.take() {
            database::put_back(&before, &self.home.path())?;
        }
        let mut seen = self.heal(trial).with_context(|| trial.to_string())?;
        seen.at_crash = Progress::of(&kinds);
        Ok(seen)
    }

    /// A clean stop, after which nothing may be half done or stuck.
    pub(crate) fn end(mut self) -> Result<()> {
        let Some(server) = self.server.take() else { return Ok(()) };
        let ended = server.terminate(PATIENCE)?;
        ensure!(ended.is_some_and(|ended| ended.code() == Some(0)), "the last server ended with {ended:?}");
        let rows = database::read(&self.home.path())?;
        ensure!(rows.damage.is_empty(), "the database is damaged: {:?}", rows.damage);
        ensure!(rows.in_flight == 0, "{} topics are held", rows.in_flight);
        Ok(())
    }

    /// Brings the call to the moment of the kill, and kills.
    fn cut_short(&mut self, trial: &Trial) -> Result<()> {
        match trial.kill {
            Kill::Asking(after) => {
                self.send(trial)?;
                std::thread::sleep(after);
                self.kill()
            }
            Kill::Approved(after) => {
                self.send(trial)?;
                self.approve(trial)?;
                std::thread::sleep(after);
                self.kill()
            }
            Kill::During => {
                self.counter.hold(&trial.name);
                self.send(trial)?;
                self.approve(trial)?;
                ensure!(self.counter.is_called_within(&trial.name, PATIENCE), "the tool was never called");
                self.kill()
            }
            Kill::Point(point) => {
                if point.armed == Armed::WhenApproved {
                    self.send(trial)?;
                    self.question(trial)?;
                }
                self.end_at(trial, point)
            }
        }
    }

    fn end_at(&mut self, trial: &Trial, point: Point) -> Result<()> {
        if let Some(server) = self.server.take() {
            server.kill()?;
        }
        if self.journal == Journal::Forgotten {
            self.before_the_crash = Some(database::copied(&self.home.path())?);
        }
        let fault = format!("{}:{}", point.name, point.hit);
        self.home.variables.push(("CORTEX_FAULT".to_owned(), fault));
        let armed = self.home.started();
        self.home.variables.clear();
        let mut armed = armed?;
        match point.armed {
            Armed::WhileAsking => drop(self.client.ingest(armed.port, &trial.event())),
            Armed::WhenApproved => {
                if let Some(id) = self.open_question(armed.port, trial)? {
                    self.http.post(armed.port, &format!("/api/v2/approvals/{id}/approve"), &json!({}));
                }
            }
        }
        let ended = armed.ended_within(PATIENCE)?;
        ensure!(ended.is_some(), "the fault point was not reached");
        Ok(())
    }

    /// Lets a server without a fault bring the event to its end, with an approval where it asks for one.
    fn heal(&mut self, trial: &Trial) -> Result<Seen> {
        let port = self.port()?;
        let Known::Answered(Ingested::Queued { event_id } | Ingested::Duplicate { event_id }) =
            self.client.ingest(port, &trial.event())
        else {
            bail!("the healed server does not take the event");
        };
        let started = Instant::now();
        loop {
            if let Some(id) = self.open_question(port, trial)? {
                self.http.post(port, &format!("/api/v2/approvals/{id}/approve"), &json!({}));
            }
            self.collect(port);
            let trace = self.get(port, &format!("/api/v2/events/{event_id}/trace"))?;
            let told = self.messages.get(&trial.name).map_or(0, Vec::len);
            let is_told = trace["replies"].as_array().is_some_and(|replies| told >= replies.len());
            if (ending_of(&trace) != Ending::Open && is_told) || started.elapsed() > PATIENCE {
                return Ok(self.seen(trial, &trace));
            }
            std::thread::sleep(LOOK_AGAIN);
        }
    }

    fn seen(&self, trial: &Trial, trace: &Value) -> Seen {
        let entries = trace["entries"].as_array().map(Vec::as_slice).unwrap_or_default();
        let details = entries.iter().filter_map(|entry| entry["detail"].as_str());
        let is_ending = |detail: &&str| {
            ["done", "unknown", "failed", "refused"]
                .iter()
                .any(|word| detail.starts_with(&format!("{TOOL} {word}")))
        };
        let messages = self.messages.get(&trial.name).map(Vec::as_slice).unwrap_or_default();
        let answer = format!("re: {}", setting::text(&trial.name));
        Seen {
            at_crash: Progress::NotStarted,
            runs: 0,
            ending: ending_of(trace),
            endings: details.filter(is_ending).map(str::to_owned).collect(),
            notices: messages.iter().filter(|text| text.contains(NOTICE)).count(),
            answers: messages.iter().filter(|text| **text == answer).count(),
        }
    }

    fn send(&mut self, trial: &Trial) -> Result<()> {
        let port = self.port()?;
        let known = self.client.ingest(port, &trial.event());
        ensure!(matches!(known, Known::Answered(Ingested::Queued { .. })), "not accepted: {known:?}");
        Ok(())
    }

    fn approve(&mut self, trial: &Trial) -> Result<()> {
        let id = self.question(trial)?;
        let port = self.port()?;
        match self.http.post(port, &format!("/api/v2/approvals/{id}/approve"), &json!({})) {
            Reply::Answered(answer) if answer.code == 200 => Ok(()),
            other @ (Reply::Answered(_) | Reply::NotSent | Reply::Unknown) => {
                bail!("the approval was not taken: {other:?}")
            }
        }
    }

    /// The question about this event, once it is there.
    fn question(&mut self, trial: &Trial) -> Result<String> {
        let (port, started) = (self.port()?, Instant::now());
        loop {
            if let Some(id) = self.open_question(port, trial)? {
                return Ok(id);
            }
            ensure!(started.elapsed() < PATIENCE, "nobody was asked");
            std::thread::sleep(LOOK_AGAIN);
        }
    }

    fn open_question(&mut self, port: u16, trial: &Trial) -> Result<Option<String>> {
        let open = self.get(port, "/api/v2/approvals")?;
        let items = open["items"].as_array().map(Vec::as_slice).unwrap_or_default();
        let ours = items.iter().find(|item| item["topicKey"] == trial.name.as_str());
        Ok(ours.and_then(|item| item["approvalId"].as_str()).map(str::to_owned))
    }

    /// Takes what the outbox has for the user.
    fn collect(&mut self, port: u16) {
        if let Known::Answered(messages) = self.client.poll(port, 20) {
            for message in messages {
                self.client.ack(port, &message);
                self.messages.entry(message.topic).or_default().push(message.text);
            }
        }
    }

    fn get(&mut self, port: u16, path: &str) -> Result<Value> {
        match self.http.get(port, path) {
            Reply::Answered(answer) if answer.code == 200 => Ok(answer.body),
            other @ (Reply::Answered(_) | Reply::NotSent | Reply::Unknown) => bail!("GET {path}: {other:?}"),
        }
    }

    fn kill(&mut self) -> Result<()> {
        match self.server.take() {
            Some(server) => server.kill(),
            None => bail!("no server is up"),
        }
    }

    /// Where a server without a fault listens; starts one when none is up.
    fn port(&mut self) -> Result<u16> {
        if let Some(server) = &self.server {
            return Ok(server.port);
        }
        let server = self.home.started()?;
        let port = server.port;
        self.server = Some(server);
        Ok(port)
    }
}

fn ending_of(trace: &Value) -> Ending {
    match trace["event"]["status"].as_str() {
        Some("done") => Ending::Done,
        Some("failed") => Ending::Failed,
        _ => Ending::Open,
    }
}
