//! Thirty secrets in every place where a secret can be: none of them is in a log, in `/metrics` or in an error.

use crate::cortex::Cortex;
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::TcpStream;

/// A name for the message and what must never be seen.
struct Canaries(Vec<(String, String)>);

impl Canaries {
    /// A secret that looks like nothing but a word.
    fn plain(&mut self, place: &str) -> String {
        let secret = format!(
            "canary-{}-{:016x}",
            self.0.len(),
            0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(self.0.len() as u64 + 1)
        );
        self.0.push((place.to_owned(), secret.clone()));
        secret
    }

    /// A secret that looks like what it is.
    fn token(&mut self, place: &str, beginning: &str) -> String {
        let secret = format!(
            "{beginning}{:016x}{:016x}",
            self.0.len() + 77,
            0x2545_f491_4f6c_dd1d_u64.wrapping_mul(self.0.len() as u64 + 3)
        );
        self.0.push((place.to_owned(), secret.clone()));
        secret
    }

    #[track_caller]
    fn assert_none_in(&self, what: &str, text: &str) {
        for (place, secret) in &self.0 {
            assert!(!text.contains(secret.as_str()), "the secret of {place} is in {what}: {text}");
        }
    }
}

const SKILL: &str = "\
export const listTools = () => [
  { name: 's.read', description: 'd', mutatesState: false, inputSchema: { type: 'object' } },
  { name: 's.fail', description: 'd', mutatesState: false, inputSchema: { type: 'object' } },
  { name: 's.hang', description: 'd', mutatesState: false, inputSchema: { type: 'object' } },
  { name: 's.write', description: 'd', mutatesState: true, inputSchema: { type: 'object' } },
];
export const execute = async (call, ctx) => {
  if (call.name === 's.fail') throw new Error('it broke');
  if (call.name === 's.hang') await new Promise(() => {});
  return { content: 'read' };
};
";

fn write_skill(cortex: &Cortex) -> String {
    let folder = cortex.beside("skills/s");
    std::fs::create_dir_all(&folder).unwrap();
    let manifest =
        json!({"id": "s", "name": "S", "version": "1.0.0", "runtimeApiVersion": "1", "main": "main.ts"});
    std::fs::write(folder.join("skill.json"), manifest.to_string()).unwrap();
    std::fs::write(folder.join("main.ts"), SKILL).unwrap();
    cortex.beside("skills").to_str().unwrap().to_owned()
}

/// One answer of the model for each way a call can go, with a secret in its arguments, and what to say for it.
fn script(canaries: &mut Canaries) -> (Value, Vec<(String, &'static str)>) {
    let mut answers = Vec::new();
    let mut said = Vec::new();
    for (tool, how) in [
        ("s.read", "allowed"),
        ("s.fail", "failed"),
        ("s.hang", "timed out"),
        ("s.write", "denied"),
        ("s.none", "refused"),
    ] {
        let (plain, token) = (canaries.plain(how), canaries.token(how, "sk-"));
        let prompt = canaries.plain("a prompt");
        let call = json!({"name": tool, "arguments": {"password": plain, "note": format!("use {token}")}});
        answers.push(json!({"when": {"afterTool": tool}, "say": "So be it."}));
        answers.push(json!({"when": {"startsWith": how}, "toolCalls": [call]}));
        said.push((format!("{how}: my password is {prompt}"), tool));
    }
    answers.push(json!({"when": {"contains": "break"}, "error": {"kind": "rejected"}}));
    (json!({"answers": answers, "otherwise": {"say": "You said: {{user}}"}}), said)
}

/// A server's settings with a secret in each place that takes one.
fn settings(canaries: &mut Canaries) -> Value {
    json!({
        "logLevel": "trace",
        "toolTimeoutMs": 300,
        "ingestApiKey": canaries.plain("ingestApiKey"),
        "hooks": {"ci": {"key": canaries.plain("a hook's key"), "text": "{{/body}}"}},
        "webhooks": {"out": {"source": "hook:ci", "url": format!("http://127.0.0.1:9/{}", canaries.plain("a webhook's address")),
                             "secret": canaries.token("a webhook's secret", "whsec_")}},
        "mcpServers": {
            "dies": {"command": "/bin/sh", "args": ["-c", "echo $LOUD >&2; exit 3"], "env": {"LOUD": canaries.plain("an MCP server's env")}},
            "away": {"url": "http://127.0.0.1:9/mcp", "headers": {"Authorization": format!("Bearer {}", canaries.plain("an MCP server's header"))}},
        },
        "egressAllow": ["127.0.0.1:9"],
        "calendars": {"work": format!("https://127.0.0.1:9/{}/basic.ics", canaries.plain("a calendar's address"))},
        "skillConfig": {"s": {"apiKey": canaries.plain("a skill's setting")}},
    })
}

fn raw(cortex: &Cortex, request: &str) -> String {
    let listening: Value =
        serde_json::from_slice(&std::fs::read(cortex.path("run/address")).unwrap()).unwrap();
    let address = listening["address"].as_str().unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(request.replace("HOST", address).as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn no_secret_reaches_a_log_the_metrics_or_an_error() {
    let mut canaries = Canaries(Vec::new());
    let (script, said) = script(&mut canaries);
    let settings = settings(&mut canaries);
    let cortex = Cortex::scripted(&script);
    let skills = write_skill(&cortex);
    let cortex = cortex
        .with("CORTEX_SKILL_DIRS", &skills)
        .with("OPENAI_API_KEY", &canaries.token("the environment", "sk-proj-"))
        .with("SOME_SECRET", &canaries.plain("the environment"))
        .with("DB_PASSWORD", &canaries.plain("the environment"))
        .with_file(&settings.to_string())
        .started();
    let credentials: Value =
        serde_json::from_slice(&std::fs::read(cortex.path("credentials")).unwrap()).unwrap();
    let owner = credentials["profiles"]["default"]["token"].as_str().unwrap().to_owned();
    canaries.0.push(("the owner's token".to_owned(), owner.clone()));
    let made = cortex.json(&["key", "create", "mine", "--source", "web", "--json"]);
    canaries.0.push(("a connector's key".to_owned(), made["key"].as_str().unwrap().to_owned()));

    let mut told = String::new();
    for (text, tool) in said {
        let sent = cortex.run(&["send", &text, "--json"]);
        told.push_str(&sent.stderr);
        if tool == "s.write" {
            let sent: Value = serde_json::from_str(&sent.stdout).unwrap();
            let approval = sent["replies"][0]["payload"]["approvalId"].as_str().unwrap();
            for button in sent["replies"][0]["payload"]["buttons"].as_array().unwrap() {
                let token = button["data"].as_str().unwrap().split(':').next().unwrap().to_owned();
                canaries.0.push(("an approval".to_owned(), token));
            }
            told.push_str(&cortex.run(&["approvals", "deny", approval]).stderr);
        }
    }
    told.push_str(&cortex.run(&["send", &format!("break {}", canaries.plain("a failed prompt"))]).stderr);
    for (scheme, place) in [("Bearer", "a header"), ("Basic", "another header")] {
        let secret = canaries.plain(place);
        told.push_str(&raw(&cortex, &format!("GET /api/v2/status HTTP/1.1\r\nHost: HOST\r\nAuthorization: {scheme} {secret}\r\nCookie: session={secret}\r\nConnection: close\r\n\r\n")));
    }
    let in_query = canaries.plain("a query");
    told.push_str(&raw(
        &cortex,
        &format!("GET /nowhere?token={in_query} HTTP/1.1\r\nHost: HOST\r\nConnection: close\r\n\r\n"),
    ));
    let in_body = canaries.plain("a body");
    told.push_str(&raw(&cortex, &format!("POST /ingest HTTP/1.1\r\nHost: HOST\r\nAuthorization: Bearer {owner}\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{{\"secret\": \"{in_body}\"}}", in_body.len() + 14)));
    told.push_str(&cortex.run(&["doctor"]).stdout);
    told.push_str(&cortex.run(&["config", "--server", "--list"]).stdout);
    told.push_str(&cortex.run(&["status"]).stdout);
    assert!(canaries.0.len() >= 30, "{}", canaries.0.len());
    let metrics = raw(
        &cortex,
        &format!(
            "GET /metrics HTTP/1.1\r\nHost: HOST\r\nAuthorization: Bearer {owner}\r\nConnection: close\r\n\r\n"
        ),
    );
    assert!(metrics.starts_with("HTTP/1.1 200"), "{metrics}");
    canaries.assert_none_in("/metrics", &metrics);
    canaries.assert_none_in("an answer or an error", &told);

    let log = cortex.path("logs/cortex.log");
    let has_died = || std::fs::read_to_string(&log).is_ok_and(|text| text.contains("an MCP server wrote"));
    assert!(
        (0..2_000).any(|_| has_died() || {
            cortex.run(&["health"]);
            false
        }),
        "the log hears the server that dies"
    );
    cortex.run(&["stop"]);
    let log = std::fs::read_to_string(&log).unwrap();
    assert!(log.contains("The server listens") && log.contains("an MCP server is down"), "{log}");
    canaries.assert_none_in("the log", &log);
}
