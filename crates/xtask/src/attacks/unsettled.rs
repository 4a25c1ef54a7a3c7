//! Skills that act and then never come back: what they did may stand, so nobody may say that it failed or is done.

use super::Attack;
use super::far_side::{FarSide, calls, last_message, says};
use super::judgement::Judgement;
use super::target::{Arena, Said, Setup};
use super::wire::Request;
use crate::faults::Extent;
use crate::faults::http::KEY;
use anyhow::Result;
use serde_json::{Value, json};

pub(crate) const ATTACKS: &[Attack] = &[Attack {
    name: "a_skill_that_acted_and_never_settles_is_unknown",
    statement: "F-M1",
    extent: Extent::Short,
    run: never_settles,
}];

const MANIFEST: &str =
    r#"{"id": "notes", "name": "notes", "version": "0.1.0", "runtimeApiVersion": "1", "main": "main.js"}"#;

/// A skill that posts to this address and then does something else.
fn posts(address: std::net::SocketAddr, then: &str) -> String {
    format!(
        "export default {{ listTools() {{ return [{{ name: 'notes.post', description: 'Posts.', inputSchema: {{ type: 'object' }}, \
         mutatesState: true }}]; }}, async execute(call, ctx) {{ await ctx.http.fetch('http://{address}/count', {{ method: 'POST', \
         body: 'one' }}); {then}; return {{ content: 'posted' }}; }} }};"
    )
}

/// What a call may come to after it has acted.
const ENDS: [(&str, &str, bool); 5] = [
    ("it settles", "0", true),
    ("it never settles", "await new Promise(() => {})", false),
    ("it never ends", "for (;;) {}", false),
    ("its memory ends", "const all = []; for (;;) all.push('x'.repeat(1e6) + all.length)", false),
    ("its stack ends", "const deep = () => deep() + 1; for (;;) { try { deep(); } catch { } }", false),
];

fn never_settles(arena: &Arena, judgement: &mut Judgement) -> Result<()> {
    for (what, then, settles) in ENDS {
        let counter = FarSide::page([127, 0, 0, 2], "counted")?;
        let model = FarSide::model(|request| {
            let (text, is_result) = last_message(request);
            if text.contains("post it") && !is_result {
                calls("notes__post", &json!({}))
            } else {
                says("well")
            }
        })?;
        let target = arena.server_with(&Setup {
            settings: json!({"skillDirs": ["skills"], "providers": model.as_provider(), "toolTimeoutMs": 3_000,
                "egressAllow": [counter.address.to_string()]}),
            files: vec![
                ("skills/notes/skill.json".to_owned(), MANIFEST.to_owned()),
                ("skills/notes/main.js".to_owned(), posts(counter.address, then)),
            ],
            ..Setup::with_real_model()
        })?;
        let event = target.ingest(KEY, &Said::at_terminal("1", "post it"))?.field("eventId");
        let question = target.wait_for_question()?;
        judgement.control(counter.got().is_empty(), || format!("{what}: it acted unasked"));
        let path = format!("/api/v2/approvals/{question}/approve");
        let approved = target.ask(&Request::post(path, &json!({})).owner())?;
        judgement.control(approved.code == 200, || format!("{what}: {}", approved.text()));
        // The turn goes on once its question is answered.
        target.wait_for_message(KEY, "cli", |message| message["text"] == "well")?;
        target.wait_until_idle()?;
        let posted = counter.got().len();
        judgement.control(posted > 0, || format!("{what}: it never acted"));
        judgement.demand(posted == 1, || format!("{what}: it acted {posted} times"));
        let trace = target.owner_get(&format!("/api/v2/events/{event}/trace"))?;
        let entries = trace["entries"].as_array().cloned().unwrap_or_default();
        let told: Vec<&str> = entries.iter().filter_map(|entry| entry["detail"].as_str()).collect();
        let is_ending = |words: &&str| *words != "started" && !words.starts_with("called with");
        let ending = told.iter().find_map(|line| line.strip_prefix("notes.post ").filter(is_ending));
        let ending = ending.unwrap_or("in no line of its trace").to_owned();
        if settles {
            judgement.control(ending.starts_with("done"), || format!("{what}: {ending}"));
        } else {
            judgement.demand(ending.starts_with("unknown"), || format!("{what}: it is {ending}"));
            let results: Vec<String> = model
                .got()
                .iter()
                .filter_map(|got| serde_json::from_str::<Value>(&got.body).ok())
                .map(|request| last_message(&request))
                .filter(|(_, is_result)| *is_result)
                .map(|(text, _)| text)
                .collect();
            judgement.control(!results.is_empty(), || format!("{what}: the model is told nothing"));
            let is_told = results.iter().any(|text| text.contains("unknown") || text.contains("may have"));
            judgement.demand(is_told, || format!("{what}: the model is told {results:?}"));
        }
    }
    Ok(())
}
