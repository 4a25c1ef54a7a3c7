//! Tools that describe themselves so that checking a call never ends.

use super::Attack;
use super::far_side::within;
use super::judgement::Judgement;
use super::target::{Arena, Said, Setup};
use crate::faults::Extent;
use crate::faults::http::KEY;
use anyhow::Result;
use serde_json::{Map, Value, json};
use std::fs;
use std::process::Command;
use std::time::Duration;

pub(crate) const ATTACKS: &[Attack] = &[
    Attack {
        name: "no_schema_of_a_tool_hangs_the_server",
        statement: "56",
        extent: Extent::Short,
        run: schemas,
    },
    Attack {
        name: "no_source_of_a_skill_crashes_its_check",
        statement: "56",
        extent: Extent::Short,
        run: nested_sources,
    },
];

/// How long the owner waits for an answer beside a hostile call.
const PATIENCE: Duration = Duration::from_secs(10);

const PLAIN: &str = "plain";

fn hostile() -> Vec<(&'static str, Value)> {
    let doubling: Map<String, Value> = (0..40)
        .map(|level| {
            let next = json!({"$ref": format!("#/$defs/a{}", level + 1)});
            (
                format!("a{level}"),
                json!({"anyOf": [{"allOf": [next.clone(), false]}, {"allOf": [next, false]}]}),
            )
        })
        .chain([("a40".to_owned(), json!({"type": "object"}))])
        .collect();
    let patterns: Map<String, Value> = (0..900)
        .map(|number| {
            (format!("^(a{number}|b?){{1,200}}(c+)+$"), json!({"pattern": "^(([a-z])+.)+[A-Z]([a-z])+$"}))
        })
        .collect();
    let deep = (0..60)
        .fold(json!({"type": "string"}), |inner, _| json!({"type": "object", "properties": {"a": inner}}));
    vec![
        // The control: the same skill, and nothing is wrong with it.
        (PLAIN, json!({"type": "object"})),
        ("doubling", json!({"type": "object", "$defs": doubling, "$ref": "#/$defs/a0"})),
        ("patterns", json!({"type": "object", "patternProperties": patterns})),
        (
            "itself",
            json!({"type": "object", "$defs": {"a": {"anyOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/a"}]}}, "$ref": "#/$defs/a"}),
        ),
        ("deep", deep),
        ("remote", json!({"type": "object", "$ref": "http://127.0.0.1:1/schema.json"})),
        (
            "numbers",
            json!({"type": "object", "properties": {"n": {"type": "number", "multipleOf": 1e-300, "maximum": 1e308}}}),
        ),
    ]
}

fn schemas(arena: &Arena, judgement: &mut Judgement) -> Result<()> {
    for (name, schema) in hostile() {
        let manifest = json!({"id": "bad", "name": "bad", "version": "0.1.0", "runtimeApiVersion": "1", "main": "main.js"});
        let main = format!(
            "export default {{ listTools() {{ return [{{ name: 'bad.call', description: 'Does harm.', inputSchema: {schema}, \
             mutatesState: false }}]; }}, async execute() {{ return {{ content: 'done' }}; }} }};"
        );
        let arguments = json!({"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa": "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!", "n": 1e308});
        let setup = Setup {
            settings: json!({"skillDirs": ["skills"]}),
            script: json!({"answers": [
                {"when": {"afterTool": "bad.call"}, "say": "called"},
                {"when": {"startsWith": "call"}, "toolCalls": [{"name": "bad.call", "arguments": arguments}]},
            ], "otherwise": {"say": "re: {{user}}"}}),
            files: vec![
                ("skills/bad/skill.json".to_owned(), manifest.to_string()),
                ("skills/bad/main.js".to_owned(), main),
            ],
        };
        // A start that is refused with a reason is as good as a refused call; one that hangs is not.
        let arena = arena.clone();
        let started = within(PATIENCE, move || arena.server_with(&setup));
        judgement.demand(started.is_some(), || format!("{name}: the start hangs"));
        let Some(Ok(target)) = started else {
            judgement.control(name != PLAIN, || "a skill with a plain schema does not start".to_owned());
            continue;
        };
        if name == PLAIN {
            target.ingest(KEY, &Said::at_terminal("plain", "call it"))?;
            let called = target.wait_for_message(KEY, "cli", |message| message["text"] == "called");
            judgement.control(called.is_ok(), || "a tool with a plain schema is not called".to_owned());
            continue;
        }
        let answered = within(PATIENCE, move || {
            for call in 0..3 {
                let (id, topic) = (format!("call-{call}"), format!("call-{call}"));
                target.ingest(KEY, &Said { topic: &topic, ..Said::at_terminal(&id, "call it") })?;
            }
            target.ingest(KEY, &Said::at_terminal("beside", "hello"))?;
            target.wait_for_message(KEY, "cli", |message| message["text"] == "re: hello")?;
            target.wait_until_idle()
        });
        judgement.demand(matches!(answered, Some(Ok(()))), || {
            format!("{name}: the owner is not answered beside it")
        });
    }
    Ok(())
}

/// Sources that nest deeper than a parser's stack reaches; each is a way of its own to nest.
fn nested() -> Vec<(&'static str, String)> {
    let deep = |open: &str, inside: &str, close: &str, levels: usize| {
        format!("export const a = {}{inside}{};", open.repeat(levels), close.repeat(levels))
    };
    vec![
        ("brackets", deep("(", "1", ")", 50_000)),
        ("lists", deep("[", "", "]", 50_000)),
        ("objects", deep("{a:", "1", "}", 50_000)),
        ("signs", deep("!", "1", "", 200_000)),
        ("sums", deep("1+", "1", "", 200_000)),
        ("arrows", deep("a=>", "1", "", 100_000)),
        ("templates", deep("`${", "1", "}`", 50_000)),
        ("functions", deep("function(){return ", "1", "}", 50_000)),
        ("branches", format!("{}1", "if(1)".repeat(100_000))),
        ("blocks", format!("{}{}", "{".repeat(100_000), "}".repeat(100_000))),
        ("types", format!("export type A = {}string{};", "Array<".repeat(50_000), ">".repeat(50_000))),
        ("behind a quote", format!("const q = b! /\"/; {}1{}", "(".repeat(50_000), ")".repeat(50_000))),
    ]
}

fn nested_sources(arena: &Arena, judgement: &mut Judgement) -> Result<()> {
    let plain = "export default { listTools() { return []; }, async execute() { return { content: '' }; } };";
    let sources = nested();
    let hostile = sources.iter().map(|(name, source)| (*name, source.as_str()));
    for (name, source) in std::iter::once((PLAIN, plain)).chain(hostile) {
        let home = tempfile::tempdir()?;
        let skill = home.path().join("bad");
        fs::create_dir(&skill)?;
        let manifest = json!({"id": "bad", "name": "bad", "version": "0.1.0", "runtimeApiVersion": "1", "main": "main.ts"});
        fs::write(skill.join("skill.json"), manifest.to_string())?;
        fs::write(skill.join("main.ts"), source)?;
        let mut command = Command::new(&arena.program);
        command.args(["skill", "check"]).arg(&skill).env_clear().env("CORTEX_HOME", home.path().join("home"));
        let Some(checked) = within(PATIENCE, move || command.output()) else {
            judgement.demand(false, || format!("{name}: the check hangs"));
            continue;
        };
        let checked = checked?;
        let said = [checked.stdout, checked.stderr].concat();
        let said = String::from_utf8_lossy(&said).chars().take(400).collect::<String>();
        if name == PLAIN {
            judgement.control(checked.status.code() == Some(0), || format!("a plain skill: {said}"));
            continue;
        }
        let is_refused =
            checked.status.code() == Some(1) && said.contains("error:") && !said.contains("panicked");
        judgement.demand(is_refused, || format!("{name}: {}: {said}", checked.status));
    }
    Ok(())
}
