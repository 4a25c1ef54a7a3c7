//! Canaries: secrets in every place where one can stand, looked for in everything that is written for people.

use super::Attack;
use super::far_side::{FarSide, Said as Page, calls, last_message, says};
use super::judgement::Judgement;
use super::target::{Arena, Said, Setup};
use super::wire::Request;
use crate::faults::Extent;
use crate::faults::http::KEY;
use crate::faults::server::Home;
use anyhow::Result;
use serde_json::json;
use std::fs;
use std::path::Path;

pub(crate) const ATTACKS: &[Attack] = &[
    Attack { name: "no_secret_reaches_a_log", statement: "41", extent: Extent::Short, run: canaries },
    Attack {
        name: "a_settings_error_repeats_no_secret",
        statement: "41",
        extent: Extent::Short,
        run: settings_error,
    },
];

/// Secrets as they look in the wild; each has `Canary` in it and belongs to nobody.
const CANARIES: &[&str] = &[
    "sk-Canary01abcdefghijklmnopqrstuvwxyz0123456789ABCD",
    "sk-proj-Canary02abcdefghijklmnopqrstuvwxyz0123456789",
    "sk-ant-api03-Canary03abcdefghijklmnopqrstuvwxyz0123456789",
    "ghp_Canary04abcdefghijklmnopqrstuvwxyz0123",
    "github_pat_Canary05abcdefghijklmnopqrstuvwxyz0123456789",
    "glpat-Canary06abcdefghijk",
    "xoxb-123456789012-1234567890123-Canary07abcdefghijklmnop",
    "xapp-1-A0123456789-1234567890123-Canary08abcdefghijklmnop",
    "AIzaCanary09abcdefghijklmnopqrstuvwxyz01",
    "123456789:Canary10abcdefghijklmnopqrstuvwxyz0",
    "whsec_Canary11abcdefghijklmnopqrstuvwxyz012345",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJDYW5hcnkxMiJ9.Canary12abcdefghijklmnopqrstuvwxyz",
];

fn canaries(arena: &Arena, judgement: &mut Judgement) -> Result<()> {
    // A provider that quotes the key it was given, and a tool whose address has a secret in it.
    let refusing = FarSide::start([127, 0, 0, 1], |got| {
        Page {
        content_type: "application/json",
        body: json!({"error": {"message": format!("bad request {} {}", got.head, got.body), "type": "invalid_request_error"}}).to_string(),
    }
    })?;
    let model = FarSide::model(|request| {
        let (text, is_result) = last_message(request);
        match text.split_once("fetch ") {
            Some((_, secret)) if !is_result => {
                calls("http__get", &json!({"url": format!("http://127.0.0.1:1/?token={}", secret.trim())}))
            }
            Some(_) | None => says(&text),
        }
    })?;
    let mut providers = model.as_provider();
    providers["profiles"][0]["apiKey"] = json!(CANARIES[0]);
    let mut first = refusing.as_provider()["profiles"][0].clone();
    first["name"] = json!("refusing");
    first["apiKey"] = json!(CANARIES[1]);
    let profiles = vec![first, providers["profiles"][0].clone()];
    let settings = json!({
        "providers": {"profiles": profiles},
        "logLevel": "debug",
        "hooks": {"ci": {"key": CANARIES[2], "text": "{{/text}}"}},
        "skillConfig": {"weather": {"apiKey": CANARIES[3]}},
        "mcpServers": {"broken": {"command": "/no/such/program", "env": {"TOKEN": CANARIES[4]}}},
        "webhooks": {"out": {"source": "cli", "url": "http://127.0.0.1:1/", "secret": CANARIES[10], "headers": {"x-token": CANARIES[5]}}},
    });
    let target = arena.server_with(&Setup { settings, ..Setup::with_real_model() })?;
    for (number, canary) in CANARIES.iter().enumerate() {
        let (said, fetched) = (format!("said-{number}"), format!("fetched-{number}"));
        target
            .ingest(KEY, &Said { topic: &said, ..Said::at_terminal(&said, &format!("remember {canary}")) })?;
        target.ingest(
            KEY,
            &Said { topic: &fetched, ..Said::at_terminal(&fetched, &format!("fetch {canary}")) },
        )?;
        target.ask(&Request::get("/api/v2/status").key(canary))?;
        target.ask(&Request::get(format!("/api/v2/inbox?q={canary}")).owner())?;
        target.ask(&Request::post(format!("/hooks/{canary}"), &json!({})).header("x-cortex-key", *canary))?;
    }
    target.wait_until_idle()?;
    let metrics = target.ask(&Request::get("/metrics").owner())?.text();
    let health = target.ask(&Request::get("/health"))?.text();
    let home = target.home.path();
    let log = target.log();
    drop(target.server);
    let was_quoted = refusing.got().iter().any(|got| got.head.contains(CANARIES[1]));
    judgement.control(was_quoted, || "no provider was given a key to quote".to_owned());
    judgement.control(log.lines().count() > 5, || format!("the log is nearly empty: {log}"));
    judgement.control(metrics.contains("cortex_"), || "there are no metrics".to_owned());
    for canary in CANARIES.iter().chain([&KEY]) {
        for (place, text) in [("the log", &log), ("the metrics", &metrics), ("/health", &health)] {
            judgement.demand(!text.contains(canary), || {
                let line = text.lines().find(|line| line.contains(canary)).unwrap_or_default();
                format!("{place} has {canary}: {}", line.chars().take(300).collect::<String>())
            });
        }
        judgement.demand(!is_below(&home.join("logs"), canary), || format!("a file of the log has {canary}"));
    }
    Ok(())
}

fn is_below(folder: &Path, word: &str) -> bool {
    let Ok(entries) = fs::read_dir(folder) else { return false };
    entries.flatten().any(|entry| {
        let bytes = fs::read(entry.path()).unwrap_or_default();
        bytes.windows(word.len()).any(|window| window == word.as_bytes())
    })
}

fn settings_error(arena: &Arena, judgement: &mut Judgement) -> Result<()> {
    let wrong = [
        json!({"ingestApiKey": [CANARIES[0]]}),
        json!({"ingestApiKey": {"value": CANARIES[0]}}),
        json!({"hooks": {"ci": {"key": CANARIES[0], "hmac": CANARIES[1], "text": 5}}}),
        json!({"hooks": {"ci": {"secret": CANARIES[10], "key": [CANARIES[0]], "text": "x"}}}),
        json!({"providers": {"profiles": [{"name": "x", "kind": "openai", "apiKey": [CANARIES[0]]}]}}),
        json!({"connectors": {"telegram": {"enabled": true, "token": [CANARIES[9]]}}}),
        json!({"connectors": {"telegram": {"enabled": true, "token": "not a token sk-Canary99abcdefghijklmnopqrstuvwxyz"}}}),
        json!({"webhooks": {"out": {"source": "cli", "url": "http://127.0.0.1:1/", "secret": {"a": CANARIES[10]}}}}),
        json!({"mcpServers": {"m": {"command": ["x"], "env": {"TOKEN": CANARIES[3]}}}}),
        json!({"engramUrl": format!("http://user:{}@", CANARIES[3])}),
    ];
    for settings in wrong {
        let home =
            Home::with_script(&arena.program, &super::target::script())?.with("CORTEX_INGEST_API_KEY", "");
        fs::write(home.path().join("server.json"), settings.to_string())?;
        let said = match home.start()? {
            Err(refused) => {
                judgement
                    .control(refused.stderr.contains("cortex"), || format!("no error: {}", refused.stderr));
                refused.stderr
            }
            Ok(_) => home.stderr(),
        };
        judgement.demand(!said.contains("Canary"), || format!("{settings} is repeated: {said}"));
    }
    Ok(())
}
