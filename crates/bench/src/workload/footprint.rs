//! Footprint: how soon the real program answers `/health` over 100,000 events, and what it holds while idle.
//!
//! A is `cortex serve` on a prepared home, from the start of its process to a 200; B is the same on an empty home, so
//! that a slow machine shows. Memory is the resident set of the same process once it has nothing left to do; the cost of
//! idle connectors is how much more that is with a thousand of them connected.

use crate::BenchError;
use crate::bed::database;
use crate::client::{Connection, Socket, Target, on_client_thread};
use crate::fill::Fill;
use crate::options::Scale;
use crate::process::memory_mb;
use crate::report::{Findings, Goal, Measured, Round, SideFigure, Unit};
use crate::run::Run;
use crate::sample::median;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const LOOK_AGAIN: Duration = Duration::from_millis(2);
const START_PATIENCE: Duration = Duration::from_secs(60);
/// A process that used no processor time for this long is idle.
const QUIET: Duration = Duration::from_millis(500);
const QUIET_PATIENCE: Duration = Duration::from_secs(60);
const MEGABYTE: f64 = 1_000_000.0;

pub(crate) fn footprint(run: &Run<'_>) -> Result<Findings, BenchError> {
    let events = match run.options.scale {
        Scale::Full => 100_000,
        Scale::Smoke => 10_000,
    };
    let full = run.folder.join("full");
    std::fs::create_dir(&full)?;
    Fill { done: events, open: 0, topics: events / 100, messages: 0 }.write(&database(&full))?;
    run.begins(run.rounds() * 2);
    let (mut starts, mut resident, mut sockets, mut processor) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for number in 0..run.rounds() {
        let mut server = Served::start(&run.options.program, &full)?;
        let usage = server.usage_when_idle()?;
        let start = server.started_in;
        let with_sockets = server.resident_with_sockets(run.options.scale)?;
        server.stop()?;
        run.stepped();
        let empty = run.folder.join(format!("empty-{number}"));
        std::fs::create_dir(&empty)?;
        let other = Served::start(&run.options.program, &empty)?;
        let (a, b) = (start.as_secs_f64(), other.started_in.as_secs_f64());
        other.stop()?;
        run.stepped();
        starts.push(Round { a, b: Some(b), ratio: a });
        resident.push(Round { a: usage.resident_mb, b: None, ratio: usage.resident_mb });
        let cost = with_sockets - usage.resident_mb;
        sockets.push(Round { a: cost, b: None, ratio: cost.max(0.01) });
        processor.push(usage.processor_seconds);
    }
    let program_mb = std::fs::metadata(&run.options.program)?.len() as f64 / MEGABYTE;
    let database_mb = std::fs::metadata(database(&full))?.len() as f64 / MEGABYTE;
    let start = Measured {
        what: format!("start to /health over {events} events"),
        goal: Goal::at_most(0.3),
        unit: Unit::Seconds,
        of: "s",
        rounds: starts,
    };
    let resident = Measured {
        what: "idle resident set".to_owned(),
        goal: Goal::at_most(40.0),
        unit: Unit::Megabytes,
        of: "MB",
        rounds: resident,
    };
    let sockets = Measured {
        what: format!("{} idle sockets", idle_sockets(run.options.scale)),
        goal: Goal::at_most(20.0),
        unit: Unit::Megabytes,
        of: "MB",
        rounds: sockets,
    };
    let facts = vec![
        SideFigure::new("processor time from start to idle", median(processor), "s"),
        SideFigure::new("size of the program", program_mb, "MB"),
        SideFigure::new("size of the database", database_mb, "MB"),
    ];
    Ok(Findings { more: vec![resident, sockets], facts, ..Findings::of(start) })
}

fn idle_sockets(scale: Scale) -> usize {
    match scale {
        Scale::Full => 1_000,
        Scale::Smoke => 50,
    }
}

struct Usage {
    resident_mb: f64,
    processor_seconds: f64,
}

/// A `cortex serve` of our own; it is ended by its id, also when a step before fails.
struct Served {
    child: Child,
    address: SocketAddr,
    started_in: Duration,
}

impl Served {
    fn start(program: &Path, home: &Path) -> Result<Self, BenchError> {
        let address = free_address()?;
        let started = Instant::now();
        let child = Command::new(program)
            .arg("serve")
            .arg("--home")
            .arg(home)
            .arg("--port")
            .arg(address.port().to_string())
            // Nothing of the caller's settings may change what is measured.
            .env_clear()
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let mut served = Self { child, address, started_in: Duration::ZERO };
        served.wait_until_healthy(address, started)?;
        served.started_in = started.elapsed();
        Ok(served)
    }

    fn wait_until_healthy(&mut self, address: SocketAddr, started: Instant) -> Result<(), BenchError> {
        while !is_healthy(address) {
            if let Some(ended) = self.child.try_wait()? {
                return Err(BenchError::Broken(format!("the server did not start: {ended}")));
            }
            if started.elapsed() > START_PATIENCE {
                return Err(BenchError::Broken("the server did not become healthy".to_owned()));
            }
            std::thread::sleep(LOOK_AGAIN);
        }
        Ok(())
    }

    fn usage_when_idle(&mut self) -> Result<Usage, BenchError> {
        let started = Instant::now();
        let mut processor = self.processor_seconds()?;
        loop {
            std::thread::sleep(QUIET);
            let now = self.processor_seconds()?;
            // One tick of the clock is what the server's own heartbeat may cost.
            if now - processor < 0.015 || started.elapsed() > QUIET_PATIENCE {
                return Ok(Usage { resident_mb: self.resident_mb()?, processor_seconds: now });
            }
            processor = now;
        }
    }

    /// The resident set with connectors connected that say nothing, each with a session of its own.
    fn resident_with_sockets(&mut self, scale: Scale) -> Result<f64, BenchError> {
        let target = Target { address: self.address, key: String::new() };
        let this = &mut *self;
        on_client_thread(|| async {
            let mut open = Vec::new();
            for _ in 0..idle_sockets(scale) {
                open.push(Socket::of_session(&target).await?);
            }
            let usage = this.usage_when_idle()?;
            drop(open);
            Ok(usage.resident_mb)
        })
    }

    fn resident_mb(&self) -> Result<f64, BenchError> {
        memory_mb(self.child.id(), "VmRSS")
            .ok_or_else(|| BenchError::Broken("the system tells no VmRSS".to_owned()))
    }

    /// User and system time so far.
    fn processor_seconds(&self) -> Result<f64, BenchError> {
        const TICKS_PER_SECOND: f64 = 100.0;
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        // The name in parentheses may hold spaces; what follows does not.
        let fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace();
        let ticks: f64 = fields.skip(11).take(2).filter_map(|field| field.parse::<f64>().ok()).sum();
        Ok(ticks / TICKS_PER_SECOND)
    }

    fn stop(mut self) -> Result<(), BenchError> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // Only an early error comes here with a living child; a dead one cannot be killed, and need not be.
        if self.child.kill().is_ok() {
            drop(self.child.wait());
        }
    }
}

fn is_healthy(address: SocketAddr) -> bool {
    let asked = on_client_thread(|| async {
        let target = Target { address, key: String::new() };
        Ok(Connection::open(target).await?.get("/health").await?.status)
    });
    matches!(asked, Ok(200))
}

/// A port that was free a moment ago.
fn free_address() -> Result<SocketAddr, BenchError> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?)
}
