//! WS dispatch: what the connectors' door itself costs, over 64 sockets with up to `WINDOW` frames on their way each.
//!
//! A is CloudEvents that come again: read, checked, found by their identity and answered with what is on record; no turn
//! runs, so that the figure is of the door and not of the disk. B is an echo of the same frames over the same guard and
//! listener. With `--node-modules` npm's `ws` does A's work in memory beside it. What new events reach, each through the
//! durable inbox, a turn and the outbox, is told too: that is turn-throughput's figure over another door.

use crate::BenchError;
use crate::baseline::{ECHO_SOCKET, NodeSockets, echo_socket_routes};
use crate::bed::{Bed, Turns};
use crate::client::{Socket, Target, TextFrame, on_client_thread};
use crate::report::{Check, Findings, Goal, Measured, SideFigure};
use crate::run::Run;
use futures::future::try_join_all;
use serde_json::json;
use std::time::{Duration, Instant};

const SOCKETS: usize = 64;
/// Frames of one socket on their way at a time: a connector does not wait with one person's words for another's answer.
const WINDOW: usize = 8;
const SCRIPT: &str =
    r#"{"model": "at-once", "otherwise": {"say": "You have a meeting at 15:00 with the team."}}"#;

pub(crate) fn ws_dispatch(run: &Run<'_>) -> Result<Findings, BenchError> {
    let script = run.folder.join("script.json");
    std::fs::write(&script, SCRIPT)?;
    let turns = Turns::Scripted { parallel_topics: SOCKETS as u32, script };
    let bed = Bed::start(run.folder, turns, echo_socket_routes())?;
    let node = run.options.node_modules.as_deref().map(NodeSockets::start).transpose()?;
    let sides = if node.is_some() { 4 } else { 2 };
    run.begins(run.rounds() * sides);
    let (target, mut checked, mut wrong) = (bed.target(), 0, 0);
    let mut door = |time: Duration| {
        let told = dispatch(&target, Door::Real, time)?;
        checked += told.answers;
        wrong += told.wrong;
        Ok(told.rate())
    };
    let pairs = run.side_by_side(&mut door, |time| Ok(dispatch(&target, Door::Echo, time)?.rate()))?;
    let judged = Measured::ratio("dispatch / echo, 64 sockets", Goal::at_least(0.8), "frames/s", pairs);
    let mut more = Vec::new();
    if let Some(node) = &node {
        let pairs =
            run.side_by_side(&mut door, |time| Ok(dispatch(&node.target, Door::Node, time)?.rate()))?;
        more.push(Measured::ratio("dispatch / node ws", Goal::at_least(2.0), "frames/s", pairs));
    }
    let anew = dispatch(&target, Door::EveryEventNew, run.time())?;
    bed.stop();
    let check = Check { what: "answers that differ", of: checked, violations: wrong };
    let facts = vec![SideFigure::new("new events, the whole way", anew.rate(), "events/s")];
    Ok(Findings { more, checks: vec![check], facts, ..Findings::of(judged) })
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Door {
    Real,
    EveryEventNew,
    Echo,
    Node,
}

#[derive(Default)]
struct Dispatched {
    answers: u64,
    wrong: u64,
    elapsed: Duration,
}

impl Dispatched {
    fn rate(&self) -> f64 {
        self.answers as f64 / self.elapsed.as_secs_f64()
    }
}

fn dispatch(target: &Target, door: Door, time: Duration) -> Result<Dispatched, BenchError> {
    on_client_thread(|| async {
        // One after the other: the door lets only so many shake hands at a time.
        let mut lanes = Vec::with_capacity(SOCKETS);
        for number in 0..SOCKETS {
            lanes.push(Lane::open(target, door, number).await?);
        }
        let started = Instant::now();
        let told = try_join_all(lanes.into_iter().map(|lane| lane.run(started, time))).await?;
        Ok(told.into_iter().fold(Dispatched::default(), |all, lane| Dispatched {
            answers: all.answers + lane.answers,
            wrong: all.wrong + lane.wrong,
            elapsed: started.elapsed(),
        }))
    })
}

/// One socket with its own conversation.
struct Lane {
    socket: Socket,
    door: Door,
    number: usize,
    frame: TextFrame,
    answer: Option<Vec<u8>>,
}

impl Lane {
    async fn open(target: &Target, door: Door, number: usize) -> Result<Self, BenchError> {
        let mut socket = match door {
            Door::Real | Door::EveryEventNew => Socket::of_session(target).await?,
            Door::Echo => Socket::open(target, ECHO_SOCKET).await?,
            Door::Node => Socket::open(target, "/").await?,
        };
        let frame = TextFrame::new(&event(number, "again"));
        let answer = match door {
            // The first time a turn runs; from then on the answer is on record.
            Door::Real => {
                socket.send(&frame, 1).await?;
                socket.receive_some().await?.first().map(|answer| answer.to_vec())
            }
            Door::EveryEventNew | Door::Echo | Door::Node => None,
        };
        Ok(Self { socket, door, number, frame, answer })
    }

    async fn run(mut self, started: Instant, time: Duration) -> Result<Dispatched, BenchError> {
        let mut told = Dispatched::default();
        let window = if self.door == Door::EveryEventNew { 1 } else { WINDOW };
        let mut on_their_way = 0;
        while on_their_way > 0 || started.elapsed() < time {
            if started.elapsed() < time {
                if self.door == Door::EveryEventNew {
                    self.frame =
                        TextFrame::new(&event(self.number, &format!("{:x}", rand::random::<u128>())));
                }
                self.socket.send(&self.frame, window - on_their_way).await?;
                on_their_way = window;
            }
            let answers = self.socket.receive_some().await?;
            on_their_way -= answers.len();
            told.answers += answers.len() as u64;
            if let Some(known) = &self.answer {
                told.wrong += answers.iter().filter(|answer| **answer != known.as_slice()).count() as u64;
            }
        }
        Ok(told)
    }
}

/// The event of seed 003, with this conversation and id.
fn event(number: usize, id: &str) -> String {
    json!({
        "specversion": "1.0",
        "type": "assistant.message.inbound",
        "source": "urn:connector:matrix-1",
        "id": format!("{number}-{id}"),
        "time": "2026-02-23T14:00:00Z",
        "datacontenttype": "application/json",
        "data": {
            "connectorId": "matrix-1",
            "conversationId": format!("conv-{number}"),
            "roomId": "!abc:example.org",
            "text": "Hey Cortex, what's on my schedule?",
        },
    })
    .to_string()
}
