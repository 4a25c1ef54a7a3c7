//! The child's side of `skillIsolation: "process"`: one engine between two pipes.

use super::engine::{self, EngineWire, StopFlag, THREAD_STACK_BYTES};
use super::wire::{FromEngine, ToEngine};
use crate::child::{confine_skill, end_with_parent, forbid_processes};
use crate::descriptors;
use std::cell::RefCell;
use std::io::{BufRead, Write};
use std::rc::Rc;
use std::sync::mpsc;

/// Runs one skill's engine: lines of JSON in, lines of JSON out, until the input ends. The process should exit then:
/// an engine that hangs in native code is left behind on its thread.
pub fn run_skill_child(input: impl BufRead, output: impl Write + Send + 'static) -> std::io::Result<()> {
    descriptors::keep_from_children();
    // A server that ended before this is noticed by the end of the input.
    end_with_parent()?;
    let mut lines = input.lines();
    // The first line says which database it needs; everything else is given up before any of its code runs.
    let Some(first) = lines.next().transpose()? else { return Ok(()) };
    let first: ToEngine = serde_json::from_str(&first).map_err(std::io::Error::other)?;
    if let ToEngine::Load(setup) = &first {
        confine_skill(setup.db.as_deref(), setup.heap_mib)?;
    }
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
    forbid_processes()?;
    if to_engine.send(first).is_err() {
        return Ok(());
    }
    for line in lines {
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
