//! Recall over many facts: hybrid, with everything it does, beside the bare full-text search and the bare scan.

use crate::BenchError;
use crate::corpus::question;
use crate::fill::facts::write_facts;
use crate::options::Scale;
use crate::report::{Findings, Goal, Measured, SideFigure};
use crate::run::Run;
use crate::sample::median;
use cortex_brain::{Int8Vector, VectorIndex, match_expression};
use cortex_bus::Bus;
use cortex_models::embed_built_in;
use cortex_runtime::{MemoryDesk, Recall, Runtime, RuntimeConfig};
use cortex_store::{FactFilter, Store, StoreConfig};
use cortex_tools::Registry;
use cortex_types::SystemClock;
use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

const LIMIT: usize = 10;
/// What recall looks at on each side.
const CANDIDATES: usize = 100;
const QUESTIONS: u64 = 50;

pub(crate) fn recall(run: &Run<'_>) -> Result<Findings, BenchError> {
    let rows = match run.options.scale {
        Scale::Full => 100_000,
        Scale::Smoke => 300,
    };
    let path = run.folder.join("cortex.db");
    let index = write_facts(&path, rows)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let (store, thread) = Store::open(StoreConfig::at(&path))?;
    let bench = Bench { memory: desk(&store, run.folder)?, store, index };
    run.begins(run.rounds() * 2);
    let mut sides = Vec::new();
    let pairs = run.side_by_side(
        |time| runtime.block_on(bench.hybrid(time)),
        |time| {
            let (words, meaning) = runtime.block_on(bench.bare(time))?;
            sides.push((words, meaning));
            Ok(words + meaning)
        },
    )?;
    let what = format!("hybrid recall / (lexical + vector), {rows} facts");
    let headline = Measured::ratio(what, Goal::at_most(1.3), "ms", pairs);
    let facts = vec![
        SideFigure::new("full-text search alone", median(sides.iter().map(|(words, _)| *words)), "ms"),
        SideFigure::new("embedding and scan alone", median(sides.iter().map(|(_, meaning)| *meaning)), "ms"),
    ];
    drop(bench);
    thread.close();
    Ok(Findings { facts, ..Findings::of(headline) })
}

struct Bench {
    memory: MemoryDesk,
    store: Store,
    index: VectorIndex,
}

impl Bench {
    /// Milliseconds of one recall, the median over as many as fit into the time.
    async fn hybrid(&self, time: Duration) -> Result<f64, BenchError> {
        let start = Instant::now();
        let mut times = Vec::new();
        for number in (0..QUESTIONS).cycle() {
            let asked =
                Recall { include_turns: false, touches: false, ..Recall::of(&question(number * 7), LIMIT) };
            let began = Instant::now();
            let hits =
                self.memory.recall(asked).await.map_err(|error| BenchError::Broken(error.to_string()))?;
            times.push(began.elapsed().as_secs_f64() * 1_000.0);
            if hits.len() != LIMIT {
                return Err(BenchError::Broken(format!("{} hits, not {LIMIT}", hits.len())));
            }
            if start.elapsed() >= time {
                break;
            }
        }
        Ok(median(times))
    }

    /// Milliseconds of the full-text search and of embedding and scan.
    async fn bare(&self, time: Duration) -> Result<(f64, f64), BenchError> {
        let start = Instant::now();
        let (mut words, mut meanings) = (Vec::new(), Vec::new());
        for number in (0..QUESTIONS).cycle() {
            let asked = question(number * 7);
            let began = Instant::now();
            let expression = match_expression(&asked);
            let found =
                self.store.facts().search_text(expression, FactFilter::default(), CANDIDATES as u32).await?;
            words.push(began.elapsed().as_secs_f64() * 1_000.0);
            let began = Instant::now();
            let query = Int8Vector::of(&embed_built_in(&asked));
            let near = self.index.nearest(&query, CANDIDATES, |_| true);
            meanings.push(began.elapsed().as_secs_f64() * 1_000.0);
            black_box((found, near));
            if start.elapsed() >= time {
                break;
            }
        }
        Ok((median(words), median(meanings)))
    }
}

fn desk(store: &Store, folder: &Path) -> Result<MemoryDesk, BenchError> {
    let config = RuntimeConfig::for_workspace(folder.join("workspace"));
    let clock = Arc::new(SystemClock::start());
    let flow = Runtime::new(config, store.clone(), Bus::default(), clock, Registry::builder());
    Ok(flow.map_err(|error| BenchError::Broken(error.to_string()))?.memory())
}
