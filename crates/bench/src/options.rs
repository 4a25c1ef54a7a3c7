//! What to measure, how long, and where.

use serde::Serialize;
use std::path::PathBuf;
use std::time::Duration;

/// The benchmarks, in the order `all` runs them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum BenchName {
    IngestThroughput,
    IngestVsNaive,
    IngestIdleLatency,
    OutboxDrain,
    TurnThroughput,
    WsDispatch,
    ToolCall,
    Context,
    Embed,
    SearchVector,
    Recall,
    Footprint,
    Growth,
}

impl BenchName {
    pub const ALL: [Self; 13] = [
        Self::IngestThroughput,
        Self::IngestVsNaive,
        Self::IngestIdleLatency,
        Self::OutboxDrain,
        Self::TurnThroughput,
        Self::WsDispatch,
        Self::ToolCall,
        Self::Context,
        Self::Embed,
        Self::SearchVector,
        Self::Recall,
        Self::Footprint,
        Self::Growth,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::IngestThroughput => "ingest-throughput",
            Self::IngestVsNaive => "ingest-vs-naive",
            Self::IngestIdleLatency => "ingest-idle-latency",
            Self::OutboxDrain => "outbox-drain",
            Self::TurnThroughput => "turn-throughput",
            Self::WsDispatch => "ws-dispatch",
            Self::ToolCall => "tool-call",
            Self::Context => "context",
            Self::Embed => "embed",
            Self::SearchVector => "search-vector",
            Self::Recall => "recall",
            Self::Footprint => "footprint",
            Self::Growth => "growth",
        }
    }
}

/// Whether the figures are to be judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    Full,
    /// Proves that everything still runs: small databases, no verdicts.
    Smoke,
}

/// How to measure.
#[derive(Debug, Clone)]
pub struct BenchOptions {
    /// How often A and B take turns.
    pub rounds: usize,
    /// How long each of them has in a round.
    pub time: Duration,
    pub scale: Scale,
    /// A folder on the disk that is to be measured; what a run puts there goes away with it.
    pub folder: PathBuf,
    /// The `cortex` program, for what is measured on a process of its own.
    pub program: PathBuf,
    /// Its command that runs one skill between two pipes.
    pub skill_host: &'static str,
    /// Where npm put `ws`, if it is to be measured beside.
    pub node_modules: Option<PathBuf>,
}

/// How far a benchmark is, for whoever waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    Began {
        name: BenchName,
        steps: usize,
    },
    /// One side of one round is measured.
    Stepped,
}
