//! Tool calls: what a call of a TypeScript skill costs beside a built-in that does nothing, and how soon a skill is there.
//!
//! A and B go the way of a turn's call: looked up, checked against the schema, run against the clock.

use crate::BenchError;
use crate::report::{Findings, Goal, Measured, Round, SideFigure, Unit};
use crate::run::Run;
use crate::sample::{Load, median};
use async_trait::async_trait;
use cortex_tools::{
    CallContext, HostPolicy, Mutation, Registry, SkillOptions, SkillSet, ToolCallError, ToolDefinition,
    ToolName, ToolOutcome, ToolRunner, ToolSource, TrustStore, TrustStoreError,
};
use cortex_types::{Millis, TopicRef};
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

const TIMEOUT: Duration = Duration::from_secs(5);
const ARGUMENTS: &str = r#"{"text":"milk"}"#;
const SCHEMA: &str = r#"{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]}"#;
const MANIFEST: &str =
    r#"{"id":"bench","name":"Bench","version":"1.0.0","main":"main.ts","runtimeApiVersion":"1"}"#;
const MAIN: &str = r#"
type Call = { name: string; argumentsJson: string };
const tool = { name: "bench.nothing", description: "Gives its text back.", mutatesState: false,
  inputSchema: { type: "object", properties: { text: { type: "string" } }, required: ["text"] } };
export async function listTools() { return [tool]; }
export async function execute(call: Call) { return { content: JSON.parse(call.argumentsJson).text }; }
"#;
const LOADS: usize = 20;

pub(crate) fn tool_call(run: &Run<'_>) -> Result<Findings, BenchError> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let bench = runtime.block_on(Bench::open(run.folder))?;
    run.begins(run.rounds() * 3);
    let calls = run.side_by_side(
        |time| runtime.block_on(bench.calls("bench.nothing", time)),
        |time| runtime.block_on(bench.calls("builtin.nothing", time)),
    )?;
    let mut loads = Vec::new();
    for _ in 0..run.rounds() {
        let load = runtime.block_on(cold_load(run.folder))?;
        loads.push(Round { a: load, b: None, ratio: load });
        run.stepped();
    }
    let beside = median(calls.iter().map(|(skill, built_in)| skill / built_in));
    let called = calls.into_iter().map(|(a, b)| Round { a, b: Some(b), ratio: a }).collect();
    let call = measured("skill call p50", 0.2, called);
    let load = measured("cold load of a skill", 5.0, loads);
    let facts = vec![SideFigure::new("skill call / built-in that does nothing", beside, "×")];
    Ok(Findings { more: vec![load], facts, ..Findings::of(call) })
}

fn measured(what: &str, most_ms: f64, rounds: Vec<Round>) -> Measured {
    Measured {
        what: what.to_owned(),
        goal: Goal::at_most(most_ms),
        unit: Unit::Milliseconds,
        of: "ms",
        rounds,
    }
}

struct Bench {
    registry: Registry,
    context: CallContext,
}

impl Bench {
    async fn open(folder: &Path) -> Result<Self, BenchError> {
        let skill = folder.join("skills").join("bench");
        std::fs::create_dir_all(&skill)?;
        std::fs::write(skill.join("skill.json"), MANIFEST)?;
        std::fs::write(skill.join("main.ts"), MAIN)?;
        let set = load(folder).await?;
        let built_in = ToolDefinition {
            name: ToolName::new("builtin", "nothing").map_err(broken)?,
            description: String::new(),
            input_schema_json: SCHEMA.to_owned(),
            mutation: Mutation::ReadOnly,
            source: ToolSource::BuiltIn,
            timeout: None,
        };
        let definitions = set.ready_definitions();
        let skills: Arc<dyn ToolRunner> = Arc::new(set);
        let tools = Registry::builder().add_all(definitions, &skills).map_err(broken)?;
        let registry = tools.add(built_in, Arc::new(Nothing)).map_err(broken)?.build();
        let context = CallContext {
            topic: TopicRef { source: "bench".to_owned(), topic_key: "bench".to_owned() },
            sight: cortex_types::Sight::Everything,
            event: None,
            user_id: "bench".to_owned(),
            now: Millis(0),
            reach: HostPolicy::AnyPublic,
            cancel: CancellationToken::new(),
        };
        Ok(Self { registry, context })
    }

    /// The median of the calls that fit into this time, in milliseconds.
    async fn calls(&self, name: &str, time: Duration) -> Result<f64, BenchError> {
        let (started, mut taken) = (Instant::now(), Vec::new());
        while started.elapsed() < time {
            let begun = Instant::now();
            let call = self.registry.check(name, ARGUMENTS).await.map_err(broken)?;
            self.registry.run(&call, &self.context, TIMEOUT).await.map_err(broken)?;
            taken.push(begun.elapsed());
        }
        Ok(Load::of(taken, started.elapsed()).p50.as_secs_f64() * 1_000.0)
    }
}

/// Reads, strips, starts and lists the skill, in milliseconds.
async fn cold_load(folder: &Path) -> Result<f64, BenchError> {
    let mut taken = Vec::new();
    for _ in 0..LOADS {
        let begun = Instant::now();
        let set = load(folder).await?;
        taken.push(begun.elapsed().as_secs_f64() * 1_000.0);
        drop(set);
    }
    Ok(median(taken))
}

async fn load(folder: &Path) -> Result<SkillSet, BenchError> {
    let options = SkillOptions {
        dirs: vec![folder.join("skills")],
        data_dir: folder.join("data"),
        ..SkillOptions::default()
    };
    SkillSet::load(&options, &TrustsAll).await.map_err(|problems| {
        BenchError::Broken(problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))
    })
}

fn broken(error: impl std::fmt::Display) -> BenchError {
    BenchError::Broken(error.to_string())
}

/// Every skill is new here.
struct TrustsAll;

#[async_trait]
impl TrustStore for TrustsAll {
    async fn all(&self) -> Result<HashMap<String, [u8; 32]>, TrustStoreError> {
        Ok(HashMap::new())
    }

    async fn put(&self, _hashes: Vec<(String, [u8; 32])>) -> Result<(), TrustStoreError> {
        Ok(())
    }
}

/// A built-in that does nothing.
struct Nothing;

#[async_trait]
impl ToolRunner for Nothing {
    async fn run(
        &self,
        _name: &ToolName,
        _arguments_json: &str,
        _context: &CallContext,
    ) -> Result<ToolOutcome, ToolCallError> {
        Ok(ToolOutcome { text: String::new() })
    }
}
