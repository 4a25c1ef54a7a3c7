//! Groups: what several people read has nothing of the owner's memory, by whatever way it is asked for.

use super::Attack;
use super::far_side::{FarSide, calls, last_message, says};
use super::judgement::Judgement;
use super::target::{Arena, Said, Setup, Target};
use super::wire::Request;
use crate::faults::Extent;
use crate::faults::http::KEY;
use anyhow::Result;
use serde_json::{Value, json};

pub(crate) const ATTACKS: &[Attack] = &[Attack {
    name: "a_group_gets_nothing_of_the_owners_memory",
    statement: "60",
    extent: Extent::Short,
    run: memory,
}];

const HOOK_KEY: &str = "a-key-of-the-hook-0123456789";
/// In USER.md, in MEMORY.md, in a fact that holds everywhere, in one of a person, and in what the owner said elsewhere.
const CANARIES: [&str; 5] = ["marzipan", "seven", "peanuts", "trombone", "lighthouse"];
const RECALL: &str = "please recall Mia and Ada";
const HISTORY: &str = "please read the history of the terminal";
const SCHEDULES: &str = "please list the schedules";

/// A model that looks wherever it is told to.
fn curious() -> Result<FarSide> {
    FarSide::model(|request| {
        let (text, is_result) = last_message(request);
        match text {
            _ if is_result => says("well"),
            text if text.contains(RECALL) => {
                calls("memory__query", &json!({"query": "Mia has an allergy, Ada plays, we meet"}))
            }
            text if text.contains(HISTORY) => calls("session__history", &json!({"topic": "terminal"})),
            text if text.contains(SCHEDULES) => calls("schedule__list", &json!({})),
            _ => says("well"),
        }
    })
}

fn setup(model: &FarSide) -> Setup {
    Setup {
        settings: json!({"providers": model.as_provider(), "hooks": {
            "own": {"key": HOOK_KEY, "text": "{{/text}}", "to": {"source": "telegram", "topic": "-100"}},
        }}),
        files: vec![
            ("workspace/USER.md".to_owned(), "The owner likes marzipan.".to_owned()),
            ("workspace/MEMORY.md".to_owned(), "The safe opens with seven.".to_owned()),
        ],
        ..Setup::with_real_model()
    }
}

/// A chat of the telegram connector, as it hands it in.
fn chat<'a>(topic: &'a str, id: &'a str, text: &'a str, metadata: Value) -> Said<'a> {
    Said { source: "telegram", topic, user: "tg:1", id, text, metadata }
}

/// Everything that the model was sent because of this.
fn prompts(target: &Target, model: &FarSide, deed: impl FnOnce() -> Result<()>) -> Result<String> {
    let before = model.got().len();
    deed()?;
    target.wait_until_idle()?;
    Ok(model.got()[before..].iter().map(|got| got.body.as_str()).collect())
}

fn memory(arena: &Arena, judgement: &mut Judgement) -> Result<()> {
    let model = curious()?;
    let target = arena.server_with(&setup(&model))?;
    let facts = [
        json!({"content": "Mia has an allergy to peanuts"}),
        json!({"content": "Ada plays the trombone", "scope": {"kind": "user", "key": "tg:1"}}),
    ];
    let lines: Vec<String> = facts.iter().map(Value::to_string).collect();
    let import = Request::new("POST", "/engram/import").header("content-type", "application/x-ndjson");
    target.ask(&import.body(lines.join("\n")).owner())?;
    target.ingest(KEY, &Said::at_terminal("0", "we meet at the lighthouse"))?;
    target.wait_until_idle()?;

    let key = target.connector_key("telegram")?;
    let private = json!({"chatType": "private"});
    let group = json!({"chatType": "group"});
    let asked = |topic: &str, id: &str, text: &str, metadata: &Value| {
        prompts(&target, &model, || target.ingest(&key, &chat(topic, id, text, metadata.clone())).map(drop))
    };
    let own = asked("42", "own-1", RECALL, &private)? + &asked("42", "own-2", HISTORY, &private)?;
    for canary in CANARIES {
        judgement.control(own.contains(canary), || format!("the owner's private chat has no {canary}"));
    }
    let mut tried = Vec::new();
    for (number, text) in [RECALL, HISTORY, SCHEDULES, "hello"].into_iter().enumerate() {
        let said = asked("-100", &format!("group-{number}"), text, &group)?;
        tried.push((format!("a group's {text:?}"), said));
        // From then on it is known as one.
        let unsaid = asked("-100", &format!("unsaid-{number}"), text, &json!({}))?;
        tried.push((format!("a known group's {text:?}"), unsaid));
    }
    let by_hook = prompts(&target, &model, || {
        let request = Request::post("/hooks/own", &json!({"text": RECALL})).key(HOOK_KEY);
        target.ask(&request).map(drop)
    })?;
    tried.push(("a hook that speaks in the group".to_owned(), by_hook));
    for (what, prompts) in &tried {
        judgement.control(!prompts.is_empty(), || format!("{what}: no model was asked"));
        let leaked: Vec<&&str> = CANARIES.iter().filter(|canary| prompts.contains(**canary)).collect();
        judgement.demand(leaked.is_empty(), || format!("{what}: the model is sent {leaked:?}"));
    }
    Ok(())
}
