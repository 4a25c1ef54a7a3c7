//! Tool calls: what a call of a TypeScript skill costs in a process of its own (`skillIsolation`'s default) beside the
//! same on a thread, on a thread beside a built-in that does nothing, and how soon a skill is there.
//!
//! A and B go the way of a turn's call: looked up, checked against the schema, run against the clock.

use crate::BenchError;
use crate::options::Scale;
use crate::process::memory_mb;
use crate::report::{Findings, Goal, Measured, Round, SideFigure, Unit};
use crate::run::Run;
use crate::sample::{Load, median};
use async_trait::async_trait;
use cortex_tools::{
    CallContext, HostPolicy, Mutation, Registry, SkillIsolation, SkillOptions, SkillSet, ToolCallError,
    ToolDefinition, ToolName, ToolOutcome, ToolRunner, ToolSource, TrustStore, TrustStoreError,
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
const SKILL: &str = "bench.nothing";
const BUILT_IN: &str = "builtin.nothing";

pub(crate) fn tool_call(run: &Run<'_>) -> Result<Findings, BenchError> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let program = run.options.program.clone();
    let process = SkillIsolation::Process { program, args: vec![run.options.skill_host.to_owned()] };
    let process = runtime.block_on(Bench::open(run.folder, process))?;
    let thread = runtime.block_on(Bench::open(run.folder, SkillIsolation::Thread))?;
    let loads_each = match run.options.scale {
        Scale::Full => 20,
        Scale::Smoke => 2,
    };
    run.begins(run.rounds() * 6);
    let calls = run.side_by_side(
        |time| runtime.block_on(process.calls(SKILL, time)),
        |time| runtime.block_on(thread.calls(SKILL, time)),
    )?;
    let memory = process.memory();
    let beside = run.side_by_side(
        |time| runtime.block_on(thread.calls(SKILL, time)),
        |time| runtime.block_on(thread.calls(BUILT_IN, time)),
    )?;
    let loads = run.side_by_side(
        |_| runtime.block_on(cold_load(&process.options, loads_each)),
        |_| runtime.block_on(cold_load(&thread.options, loads_each)),
    )?;
    let mut facts = vec![
        SideFigure::new("skill call in a process / on a thread", ratio(&calls), "×"),
        SideFigure::new("skill call on a thread / built-in that does nothing", ratio(&beside), "×"),
    ];
    facts.extend(memory);
    let alone = loads.iter().map(|&(_, load)| Round { a: load, b: None, ratio: load }).collect();
    let more = vec![
        measured("skill call on a thread, p50", 0.2, with_b(beside)),
        measured("cold load of a skill in a process", 50.0, with_b(loads)),
        measured("cold load of a skill on a thread", 5.0, alone),
    ];
    Ok(Findings { more, facts, ..Findings::of(measured("skill call in a process, p50", 0.5, with_b(calls))) })
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

/// The time of A is judged; B stands beside it.
fn with_b(pairs: Vec<(f64, f64)>) -> Vec<Round> {
    pairs.into_iter().map(|(a, b)| Round { a, b: Some(b), ratio: a }).collect()
}

fn ratio(pairs: &[(f64, f64)]) -> f64 {
    median(pairs.iter().map(|(a, b)| a / b))
}

struct Bench {
    options: SkillOptions,
    registry: Registry,
    context: CallContext,
    /// The skill's own process, where it has one.
    host: Option<u32>,
}

impl Bench {
    async fn open(folder: &Path, isolation: SkillIsolation) -> Result<Self, BenchError> {
        let skill = folder.join("skills").join("bench");
        std::fs::create_dir_all(&skill)?;
        std::fs::write(skill.join("skill.json"), MANIFEST)?;
        std::fs::write(skill.join("main.ts"), MAIN)?;
        let options = SkillOptions {
            dirs: vec![folder.join("skills")],
            data_dir: folder.join("data"),
            isolation,
            ..SkillOptions::default()
        };
        let set = load(&options).await?;
        let mut host = None;
        for skill in set.skills() {
            host = skill.process_id().await;
        }
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
        Ok(Self { options, registry, context, host })
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

    /// What the skill's process holds. Pages of the program's file belong to all processes of the program together.
    fn memory(&self) -> Vec<SideFigure> {
        let figure = |line: &str, what: &str| -> Option<SideFigure> {
            Some(SideFigure::new(what, memory_mb(self.host?, line)?, "MB"))
        };
        let own = figure("RssAnon", "memory of a skill's process, without pages of files");
        let all = figure("VmRSS", "memory of a skill's process, with pages of files");
        own.into_iter().chain(all).collect()
    }
}

/// Reads, strips, starts and lists the skill, in milliseconds.
async fn cold_load(options: &SkillOptions, loads: usize) -> Result<f64, BenchError> {
    let mut taken = Vec::new();
    for _ in 0..loads {
        let begun = Instant::now();
        let set = load(options).await?;
        taken.push(begun.elapsed().as_secs_f64() * 1_000.0);
        drop(set);
    }
    Ok(median(taken))
}

async fn load(options: &SkillOptions) -> Result<SkillSet, BenchError> {
    SkillSet::load(options, &TrustsAll).await.map_err(|problems| {
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
