//! Runs one benchmark and judges what it found.

use crate::machine::Machine;
use crate::report::Findings;
use crate::workload;
use crate::{BenchError, BenchName, BenchOptions, Progress, Report};
use std::path::Path;
use std::time::Duration;

/// A run of one benchmark: how to measure, where, and who watches.
pub(crate) struct Run<'a> {
    pub(crate) options: &'a BenchOptions,
    /// Belongs to this run alone and goes away with it.
    pub(crate) folder: &'a Path,
    name: BenchName,
    watch: &'a dyn Fn(Progress),
}

impl Run<'_> {
    pub(crate) fn rounds(&self) -> usize {
        self.options.rounds.max(1)
    }

    pub(crate) fn time(&self) -> Duration {
        self.options.time
    }

    /// Says how many steps there will be; call it once the preparations are done.
    pub(crate) fn begins(&self, steps: usize) {
        (self.watch)(Progress::Began { name: self.name, steps });
    }

    pub(crate) fn stepped(&self) {
        (self.watch)(Progress::Stepped);
    }

    /// A and B after each other, round by round. One short turn of each before warms both up.
    pub(crate) fn side_by_side<T>(
        &self,
        mut a: impl FnMut(Duration) -> Result<T, BenchError>,
        mut b: impl FnMut(Duration) -> Result<T, BenchError>,
    ) -> Result<Vec<(T, T)>, BenchError> {
        let warm_up = self.time() / 10;
        a(warm_up)?;
        b(warm_up)?;
        (0..self.rounds())
            .map(|_| {
                let a = a(self.time())?;
                self.stepped();
                let b = b(self.time())?;
                self.stepped();
                Ok((a, b))
            })
            .collect()
    }
}

/// Measures one benchmark. `watch` is told how far it is.
pub fn run(name: BenchName, options: &BenchOptions, watch: &dyn Fn(Progress)) -> Result<Report, BenchError> {
    let folder = tempfile::Builder::new().prefix("cortex-bench-").tempdir_in(&options.folder)?;
    let machine = Machine::look(folder.path())?;
    let run = Run { options, folder: folder.path(), name, watch };
    let findings: Findings = match name {
        BenchName::IngestThroughput => workload::ingest_throughput(&run)?,
        BenchName::IngestVsNaive => workload::ingest_vs_naive(&run)?,
        BenchName::IngestIdleLatency => workload::ingest_idle_latency(&run)?,
        BenchName::OutboxDrain => workload::outbox_drain(&run)?,
        BenchName::TurnThroughput => workload::turn_throughput(&run)?,
        BenchName::WsDispatch => workload::ws_dispatch(&run)?,
        BenchName::ToolCall => workload::tool_call(&run)?,
        BenchName::Context => workload::context(&run)?,
        BenchName::Embed => workload::embed(&run)?,
        BenchName::SearchVector => workload::search_vector(&run)?,
        BenchName::Recall => workload::recall(&run)?,
        BenchName::Footprint => workload::footprint(&run)?,
        BenchName::Growth => workload::growth(&run)?,
    };
    let machine = machine.look_again(folder.path())?;
    Ok(Report::new(name, findings, options.scale, machine))
}
