//! An engine at work: on a thread of this process, or in a child process that can be killed.

use super::SkillIsolation;
use super::engine::{self, EngineWire, StopFlag, THREAD_STACK_BYTES};
use super::wire::{FromEngine, ToEngine};
use crate::child::{GroupChild, Start};
use futures::{SinkExt, StreamExt};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;
use std::process::Stdio;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc as thread_channel;
use tokio::process::{ChildStdin, ChildStdout};
use tokio::sync::mpsc;
use tokio_util::codec::{FramedRead, FramedWrite, LinesCodec};

/// The longest line between us and a child: the largest body that is fetched, in base64, and then some.
pub(crate) const LINE_BYTES_MAX: usize = 32 * 1024 * 1024;

/// A running engine. Dropping it gives it up: a thread is told to end, a process is killed.
pub(crate) enum Worker {
    Thread(ThreadWorker),
    Process(Box<ProcessWorker>),
}

/// The engine ended by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Gone;

/// Engine threads that have not ended yet, given up or not.
#[derive(Debug, Clone, Default)]
pub(crate) struct LivingThreads(Arc<AtomicUsize>);

/// Counts its thread for as long as the thread holds it.
struct Living(LivingThreads);

pub(crate) struct ThreadWorker {
    to_engine: thread_channel::Sender<ToEngine>,
    /// Without a bound of its own: the engine bounds what one call may log and fetch.
    from_engine: mpsc::UnboundedReceiver<FromEngine>,
    stop: StopFlag,
}

pub(crate) struct ProcessWorker {
    running: GroupChild,
    to_child: FramedWrite<ChildStdin, LinesCodec>,
    from_child: FramedRead<ChildStdout, LinesCodec>,
}

impl Worker {
    pub(crate) fn start(
        skill: &str,
        isolation: &SkillIsolation,
        living: &LivingThreads,
    ) -> std::io::Result<Self> {
        match isolation {
            SkillIsolation::Thread => ThreadWorker::start(skill, living).map(Self::Thread),
            SkillIsolation::Process { program, args } => {
                ProcessWorker::start(program, args).map(|worker| Self::Process(Box::new(worker)))
            }
        }
    }

    pub(crate) async fn send(&mut self, message: ToEngine) -> Result<(), Gone> {
        match self {
            Self::Thread(worker) => worker.to_engine.send(message).map_err(|_| Gone),
            Self::Process(worker) => {
                let line = serde_json::to_string(&message).map_err(|_| Gone)?;
                worker.to_child.send(line).await.map_err(|_| Gone)
            }
        }
    }

    /// What it says next. Giving up in the middle loses nothing.
    pub(crate) async fn receive(&mut self) -> Result<FromEngine, Gone> {
        match self {
            Self::Thread(worker) => worker.from_engine.recv().await.ok_or(Gone),
            Self::Process(worker) => {
                let line = worker.from_child.next().await.ok_or(Gone)?.map_err(|_| Gone)?;
                serde_json::from_str(&line).map_err(|_| Gone)
            }
        }
    }

    /// Whether it can still take a call; one may end while nobody looks.
    pub(crate) fn is_running(&mut self) -> bool {
        match self {
            Self::Thread(worker) => !worker.from_engine.is_closed(),
            Self::Process(worker) => matches!(worker.running.child.try_wait(), Ok(None)),
        }
    }

    /// The id of the child, where there is one.
    pub(crate) fn process_id(&self) -> Option<u32> {
        match self {
            Self::Thread(_) => None,
            Self::Process(worker) => worker.running.child.id(),
        }
    }
}

impl ThreadWorker {
    fn start(skill: &str, living: &LivingThreads) -> std::io::Result<Self> {
        let (to_engine, inbox) = thread_channel::channel();
        let (sender, from_engine) = mpsc::unbounded_channel();
        let stop = StopFlag::default();
        let (engine_stop, alive) = (stop.clone(), living.count());
        std::thread::Builder::new().name(format!("skill-{skill}")).stack_size(THREAD_STACK_BYTES).spawn(
            move || {
                let nobody_listens = engine_stop.clone();
                let send = Rc::new(move |message| {
                    if sender.send(message).is_err() {
                        nobody_listens.raise();
                    }
                });
                engine::run(EngineWire { inbox, send, stop: engine_stop });
                drop(alive);
            },
        )?;
        Ok(Self { to_engine, from_engine, stop })
    }
}

impl Drop for ThreadWorker {
    fn drop(&mut self) {
        self.stop.raise();
    }
}

impl ProcessWorker {
    fn start(program: &Path, args: &[String]) -> std::io::Result<Self> {
        let start = Start {
            program,
            args: args.iter().map(OsString::from).collect(),
            environment: BTreeMap::new(),
            folder: Some(Path::new("/")),
            stderr: Stdio::null(),
        };
        let mut running = start.spawn()?;
        let no_pipe = || std::io::Error::other("the child has no pipes");
        let to_child = running.child.stdin.take().ok_or_else(no_pipe)?;
        let from_child = running.child.stdout.take().ok_or_else(no_pipe)?;
        Ok(Self {
            running,
            to_child: FramedWrite::new(to_child, LinesCodec::new_with_max_length(LINE_BYTES_MAX)),
            from_child: FramedRead::new(from_child, LinesCodec::new_with_max_length(LINE_BYTES_MAX)),
        })
    }
}

impl LivingThreads {
    pub(crate) fn now(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }

    fn count(&self) -> Living {
        self.0.fetch_add(1, Ordering::SeqCst);
        Living(self.clone())
    }
}

impl Drop for Living {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::SeqCst);
    }
}
