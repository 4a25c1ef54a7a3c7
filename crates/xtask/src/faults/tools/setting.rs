//! A home with a skill that posts to the counter, and a model that calls it once for each event.

use crate::faults::server::Home;
use anyhow::Result;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

pub(crate) const TOOL: &str = "counter.add";

const SKILL: &str = r#"
export default {
  listTools: () => [{
    name: "counter.add",
    description: "Adds one.",
    inputSchema: { type: "object", properties: { name: { type: "string" } }, required: ["name"] },
    mutatesState: true,
  }],
  async execute(call, ctx) {
    const { name } = JSON.parse(call.argumentsJson);
    const response = await ctx.http.fetch(`${ctx.config.counter}/${name}`, { method: "POST", body: "1" });
    return { content: `counted: ${response.status}` };
  },
};
"#;

/// What a user writes to have `name` counted.
pub(crate) fn text(name: &str) -> String {
    format!("count {name}")
}

pub(crate) fn home(program: &Path, counter: u16, names: &[String]) -> Result<Home> {
    let home = Home::new(program, 1)?;
    let skill = home.path().join("skills/counter");
    fs::create_dir_all(&skill)?;
    let manifest = json!({
        "id": "counter", "name": "A counter", "version": "0.1.0", "runtimeApiVersion": "1", "main": "main.ts",
    });
    fs::write(skill.join("skill.json"), manifest.to_string())?;
    fs::write(skill.join("main.ts"), SKILL)?;
    let settings = json!({
        "skillDirs": ["skills"],
        "skillConfig": {"counter": {"counter": format!("http://127.0.0.1:{counter}")}},
        "egressAllow": [format!("127.0.0.1:{counter}")],
    });
    fs::write(home.path().join("server.json"), settings.to_string())?;
    fs::write(home.beside("script.json"), script(names).to_string())?;
    Ok(home)
}

/// Depends on nothing but the question, so that it says the same after every restart.
fn script(names: &[String]) -> Value {
    let calls = names.iter().map(|name| {
        let call = json!({"id": "call-1", "name": TOOL, "arguments": {"name": name}});
        json!({"when": {"equals": text(name)}, "toolCalls": [call], "delayMs": 1})
    });
    let after = json!({"when": {"afterTool": TOOL}, "say": "re: {{user}}", "delayMs": 1});
    let answers: Vec<Value> = [after].into_iter().chain(calls).collect();
    json!({"model": "script", "answers": answers})
}
