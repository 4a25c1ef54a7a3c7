//! The server under attack: in a home of its own, with the settings, script and files that the attack needs.

use super::wire::{Answer, Request};
use crate::faults::server::{Home, Server};
use anyhow::{Result, bail};
use serde_json::{Value, json};
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(20);
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// What every attack starts from.
#[derive(Clone)]
pub(crate) struct Arena {
    pub(crate) program: PathBuf,
}

impl Arena {
    /// A server with the default settings and a model that echoes.
    pub(crate) fn server(&self) -> Result<Target> {
        self.server_with(&Setup::default())
    }

    pub(crate) fn server_with(&self, setup: &Setup) -> Result<Target> {
        let mut home = Home::with_script(&self.program, &setup.script)?;
        if setup.script.is_null() {
            home = home.with("CORTEX_SCRIPTED_MODEL", "");
        }
        let settings = home.path().join("server.json");
        fs::write(settings, setup.settings.to_string())?;
        for (place, text) in &setup.files {
            let path = home.path().join(place);
            fs::create_dir_all(path.parent().unwrap_or(&path))?;
            fs::write(path, text)?;
        }
        let server = home.started()?;
        Ok(Target { port: server.port, server, home })
    }
}

pub(crate) struct Setup {
    pub(crate) settings: Value,
    /// Null for none.
    pub(crate) script: Value,
    /// Below the home.
    pub(crate) files: Vec<(String, String)>,
}

impl Default for Setup {
    fn default() -> Self {
        Self { settings: json!({}), script: script(), files: Vec::new() }
    }
}

impl Setup {
    /// For settings that name a model of their own.
    pub(crate) fn with_real_model() -> Self {
        Self { script: Value::Null, ..Self::default() }
    }
}

/// A tool that changes something, and so asks.
pub(crate) const ASKING_TOOL: &str = "schedule.create";

/// `ask <anything>` leads to a question, `forward` to a send to the channel `realtg`; everything else is echoed.
pub(crate) fn script() -> Value {
    json!({
        "model": "script",
        "answers": [
            {"when": {"afterTool": ASKING_TOOL}, "say": "It is set."},
            {"when": {"startsWith": "ask"}, "toolCalls": [{"id": "call-1", "name": ASKING_TOOL,
                "arguments": {"cron": "0 0 1 1 *", "what": "the secret party"}}]},
            {"when": {"startsWith": "forward"}, "say": "[[send_to:realtg]] the secret party"},
        ],
        "otherwise": {"say": "re: {{user}}"},
    })
}

pub(crate) struct Target {
    pub(crate) home: Home,
    pub(crate) server: Server,
    pub(crate) port: u16,
}

impl Target {
    pub(crate) fn ask(&self, request: &Request) -> Result<Answer> {
        request.send(self.port)
    }

    pub(crate) fn owner_get(&self, path: &str) -> Result<Value> {
        Ok(self.ask(&Request::get(path).owner())?.json())
    }

    /// Trusts a skill or an MCP server as it is shown now.
    pub(crate) fn trust(&self, name: &str) -> Result<Answer> {
        let tools = self.owner_get("/api/v2/tools")?;
        let row = tools["awaitingTrust"].as_array().into_iter().flatten().find(|row| row["name"] == name);
        let digest = row.map(|row| row["digest"].clone()).unwrap_or_default();
        let path = format!("/api/v2/tools/{name}/trust");
        self.ask(&Request::post(&path, &json!({ "digest": digest })).owner())
    }

    /// Hands an event in by `/ingest`, with this key.
    pub(crate) fn ingest(&self, key: &str, event: &Said<'_>) -> Result<Answer> {
        let body = json!({
            "source": event.source,
            "externalMessageId": event.id,
            "idempotencyKey": event.id,
            "topicKey": event.topic,
            "userId": event.user,
            "text": event.text,
            "occurredAt": jiff::Timestamp::now().to_string(),
            "metadata": event.metadata,
        });
        self.ask(&Request::post("/ingest", &body).key(key))
    }

    /// What waits for a source, claimed as its connector would.
    pub(crate) fn poll(&self, key: &str, source: &str) -> Result<Vec<Value>> {
        let body = json!({"source": source, "max": 100, "leaseSeconds": 10});
        let answer = self.ask(&Request::post("/outbox/poll", &body).key(key))?;
        Ok(answer.json()["messages"].as_array().cloned().unwrap_or_default())
    }

    /// Takes what waits for a source and says that it is delivered.
    pub(crate) fn deliver(&self, key: &str, source: &str) -> Result<()> {
        for message in self.poll(key, source)? {
            let ack = json!({"messageId": message["messageId"], "leaseToken": message["leaseToken"]});
            self.ask(&Request::post("/outbox/ack", &ack).key(key))?;
        }
        Ok(())
    }

    /// Polls until a message comes that fits.
    pub(crate) fn wait_for_message(
        &self,
        key: &str,
        source: &str,
        fits: impl Fn(&Value) -> bool,
    ) -> Result<Value> {
        let mut seen = Vec::new();
        let started = Instant::now();
        while started.elapsed() < PATIENCE {
            let messages = self.poll(key, source)?;
            if let Some(found) = messages.iter().find(|message| fits(message)) {
                return Ok(found.clone());
            }
            seen.extend(messages);
            std::thread::sleep(LOOK_AGAIN);
        }
        bail!("no such message came for {source}; seen: {seen:?}")
    }

    /// The question that is open now, once there is one.
    pub(crate) fn wait_for_question(&self) -> Result<String> {
        let started = Instant::now();
        while started.elapsed() < PATIENCE {
            let open = self.owner_get("/api/v2/approvals")?;
            if let Some(id) = open["items"][0]["approvalId"].as_str() {
                return Ok(id.to_owned());
            }
            std::thread::sleep(LOOK_AGAIN);
        }
        bail!("no question was asked")
    }

    pub(crate) fn approval_status(&self, id: &str) -> Result<String> {
        let shown = self.owner_get(&format!("/api/v2/approvals/{id}"))?;
        Ok(shown["status"].as_str().unwrap_or_default().to_owned())
    }

    /// Waits until everything accepted has ended or waits for a person.
    pub(crate) fn wait_until_idle(&self) -> Result<()> {
        self.wait_until_idle_within(PATIENCE)
    }

    /// The same where there is much to do.
    pub(crate) fn wait_until_idle_within(&self, patience: Duration) -> Result<()> {
        let started = Instant::now();
        while started.elapsed() < patience {
            let status = self.owner_get("/api/v2/status")?;
            let is_none = |word: &str| status["inbox"][word].as_u64() == Some(0);
            if is_none("pending") && is_none("processing") {
                return Ok(());
            }
            std::thread::sleep(LOOK_AGAIN);
        }
        bail!("the server still has work to do")
    }

    /// A key for the connector of one source.
    pub(crate) fn connector_key(&self, source: &str) -> Result<String> {
        let wanted = json!({"name": source, "source": source});
        let made = self.ask(&Request::post("/api/v2/keys", &wanted).owner())?;
        match made.field("key") {
            key if key.is_empty() => bail!("no key was made: {} {}", made.code, made.text()),
            key => Ok(key),
        }
    }

    pub(crate) fn log(&self) -> String {
        self.home.stderr()
    }
}

/// An event as somebody hands it in.
pub(crate) struct Said<'a> {
    pub(crate) source: &'a str,
    pub(crate) topic: &'a str,
    pub(crate) user: &'a str,
    pub(crate) id: &'a str,
    pub(crate) text: &'a str,
    pub(crate) metadata: Value,
}

impl<'a> Said<'a> {
    /// The owner's own words at the terminal.
    pub(crate) fn at_terminal(id: &'a str, text: &'a str) -> Self {
        Self { source: "cli", topic: "terminal", user: "owner", id, text, metadata: json!({}) }
    }
}

/// The token that a question's buttons carry.
pub(crate) fn token_in(message: &Value) -> Option<String> {
    let text = message.to_string();
    let start = text.find("apr_")?;
    let token = text[start..].chars().take_while(|letter| letter.is_ascii_alphanumeric() || *letter == '_');
    Some(token.collect())
}
