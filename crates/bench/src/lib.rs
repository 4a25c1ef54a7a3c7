//! `cortex bench`: workloads, their baselines, and ratios of the two measured side by side.
//!
//! A figure is always of one run on one machine: A and B take turns, so that whatever else the machine does meets
//! both. `docs/benchmarks.md` defines every A and B.

mod baseline;
mod bed;
mod client;
mod corpus;
mod error;
mod eval;
mod fill;
mod machine;
mod options;
mod plot;
mod process;
mod report;
mod run;
mod sample;
mod workload;

pub use error::BenchError;
pub use eval::{RetrievalScore, eval_locomo};
pub use options::{BenchName, BenchOptions, Progress, Scale};
pub use plot::plot;
pub use report::{Bound, Check, Figure, Goal, Report, Round, SideFigure, Unit, Verdict};
pub use run::run;
