//! The child's side of `skillIsolation: "process"`: one engine between two pipes.

use super::engine::{self, EngineWire, StopFlag, THREAD_STACK_BYTES};
use super::wire::FromEngine;
use rustix::process::{Resource, Rlimit, setrlimit};
use std::cell::RefCell;
use std::io::{BufRead, Write};
use std::rc::Rc;
use std::sync::mpsc;

/// Runs one skill's engine: lines of JSON in, lines of JSON out, until the input ends. The process should exit then:
/// an engine that hangs in native code is left behind on its thread.
pub fn run_skill_child(input: impl BufRead, output: impl Write + Send + 'static) -> std::io::Result<()> {
    // A skill's memory holds what it was told; it must not end up in a core file.
    setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) })?;
    let (to_engine, inbox) = mpsc::channel();
    let stop = StopFlag::default();
    let engine_stop = stop.clone();
    let engine = std::thread::Builder::new().name("skill".to_owned()).stack_size(THREAD_STACK_BYTES).spawn(
        move || {
            let (output, parent_gone) = (RefCell::new(output), engine_stop.clone());
            let send = Rc::new(move |message: FromEngine| {
                if write_line(&mut *output.borrow_mut(), &message).is_err() {
                    parent_gone.raise();
                }
            });
            engine::run(EngineWire { inbox, send, stop: engine_stop });
        },
    )?;
    for line in input.lines() {
        let message = serde_json::from_str(&line?).map_err(std::io::Error::other)?;
        if to_engine.send(message).is_err() || engine.is_finished() {
            break;
        }
    }
    stop.raise();
    Ok(())
}

fn write_line(output: &mut impl Write, message: &FromEngine) -> std::io::Result<()> {
    let mut line = serde_json::to_vec(message).map_err(std::io::Error::other)?;
    line.push(b'\n');
    output.write_all(&line)?;
    output.flush()
}
