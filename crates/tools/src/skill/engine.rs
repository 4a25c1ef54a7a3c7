//! One engine: a JavaScript heap of bounded size that lists and runs the tools of one skill.

mod host;
mod link;
mod value;

use self::host::Host;
use super::fetch::SkillResponse;
use super::wire::{Ending, EngineSetup, FromEngine, ListedTool, ToEngine};
use rquickjs::context::EvalOptions;
use rquickjs::{
    CatchResultExt, CaughtError, Context, Ctx, Function, Module, Object, Promise, Runtime, Value,
};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Instant;

/// The name of our own code in traces; its frames are not shown.
pub(crate) const PRELUDE_NAME: &str = "cortex:prelude";
const PRELUDE: &str = include_str!("prelude.js");

/// Stack of the engine's thread; the engine itself is told to stop well before.
pub(crate) const THREAD_STACK_BYTES: usize = 4 * 1024 * 1024;
const STACK_BYTES: usize = 1024 * 1024;

/// Raised once nobody waits for the engine any more; it ends at its next look.
#[derive(Debug, Clone, Default)]
pub(crate) struct StopFlag(Arc<AtomicBool>);

impl StopFlag {
    pub(crate) fn raise(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_raised(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// How an engine is spoken to.
pub(crate) struct EngineWire {
    pub(crate) inbox: Receiver<ToEngine>,
    pub(crate) send: Rc<dyn Fn(FromEngine)>,
    pub(crate) stop: StopFlag,
}

/// Runs an engine until its wire closes or its flag is raised. Everything it held is freed when it returns.
pub(crate) fn run(wire: EngineWire) {
    let Ok(ToEngine::Load(setup)) = wire.inbox.recv() else { return };
    let send = Rc::clone(&wire.send);
    if let Err(reason) = run_loaded(&setup, wire) {
        send(FromEngine::Refused(reason));
    }
}

fn run_loaded(setup: &EngineSetup, wire: EngineWire) -> Result<(), String> {
    let fault = |error: rquickjs::Error| format!("the engine cannot start: {error}");
    let runtime = Runtime::new().map_err(fault)?;
    runtime.set_memory_limit(setup.heap_mib as usize * 1024 * 1024);
    runtime.set_max_stack_size(STACK_BYTES);
    let stop = wire.stop.clone();
    runtime.set_interrupt_handler(Some(Box::new(move || stop.is_raised())));
    let program = Rc::new(setup.program.clone());
    runtime.set_loader(link::Links(Rc::clone(&program)), link::Links(program));
    let context = Context::full(&runtime).map_err(fault)?;
    context.with(|ctx| {
        let host = Rc::new(Host::new(setup, &wire));
        let (engine, tools) = Engine::load(&ctx, setup, host, &wire)?;
        (wire.send)(FromEngine::Loaded(tools));
        engine.serve();
        Ok(())
    })
}

struct Engine<'a, 'js> {
    ctx: &'a Ctx<'js>,
    setup: &'a EngineSetup,
    host: Rc<Host>,
    wire: &'a EngineWire,
    prelude: Object<'js>,
    module: Object<'js>,
}

/// Why a promise gave nothing.
enum Unsettled {
    /// Nobody waits any more, or the wire is gone.
    Stopped,
    /// The trace of what the engine could not do.
    Failed(String),
}

impl<'a, 'js> Engine<'a, 'js> {
    fn load(
        ctx: &'a Ctx<'js>,
        setup: &'a EngineSetup,
        host: Rc<Host>,
        wire: &'a EngineWire,
    ) -> Result<(Self, Vec<ListedTool>), String> {
        let prelude = prelude(ctx, &host).catch(ctx).map_err(|error| trace(&error))?;
        let main = setup.program.modules.get(&setup.program.main).ok_or("the entry file is missing")?;
        let evaluated = Module::declare(ctx.clone(), setup.program.main.as_str(), main.js.as_str())
            .and_then(Module::eval)
            .and_then(|(module, promise)| Ok((module.namespace()?, promise)));
        let (module, promise) = evaluated.catch(ctx).map_err(|error| trace(&error))?;
        let engine = Self { ctx, setup, host, wire, prelude, module };
        let listed =
            engine.settled::<Value<'js>>(&promise).and_then(|_| engine.ask("list", (engine.module.clone(),)));
        let tools = match listed {
            Ok(Ending::Done(tools)) => tools,
            Ok(Ending::Threw(trace) | Ending::Broke(trace) | Ending::BrokeHalfway(trace))
            | Err(Unsettled::Failed(trace)) => {
                return Err(trace);
            }
            Err(Unsettled::Stopped) => return Err("stopped while it loaded".to_owned()),
        };
        engine.end_call();
        let tools =
            serde_json::from_str(&tools).map_err(|error| format!("listTools() gave no list: {error}"))?;
        Ok((engine, tools))
    }

    fn serve(&self) {
        while let Ok(message) = self.wire.inbox.recv() {
            match message {
                ToEngine::Call { name, arguments_json, now_iso } => {
                    let config = self.setup.config_json.as_str();
                    let args = (self.module.clone(), name, arguments_json, now_iso, config);
                    let ending = match self.ask("execute", args) {
                        Ok(ending) => ending,
                        Err(Unsettled::Failed(trace)) => Ending::Broke(trace),
                        Err(Unsettled::Stopped) => return,
                    };
                    let ending = match ending {
                        Ending::Broke(trace) if self.host.has_acted() => Ending::BrokeHalfway(trace),
                        ending @ (Ending::Done(_)
                        | Ending::Threw(_)
                        | Ending::Broke(_)
                        | Ending::BrokeHalfway(_)) => ending,
                    };
                    self.end_call();
                    (self.wire.send)(FromEngine::Ended(ending));
                }
                // An answer to a call that is over, and a second program: neither is waited for.
                ToEngine::Fetched { .. } | ToEngine::Load(_) => {}
            }
        }
    }

    /// Calls a function of the prelude that answers with how it ended, and a text.
    fn ask<A: rquickjs::function::IntoArgs<'js>>(&self, name: &str, args: A) -> Result<Ending, Unsettled> {
        let promise: Promise<'js> =
            self.caught(self.prelude.get(name).and_then(|call: Function<'js>| call.call(args)))?;
        let answer: rquickjs::Array<'js> = self.settled(&promise)?;
        let (ending, text): (String, String) = (self.caught(answer.get(0))?, self.caught(answer.get(1))?);
        Ok(match ending.as_str() {
            "done" => Ending::Done(text),
            "threw" => Ending::Threw(text),
            _ => Ending::Broke(text),
        })
    }

    /// Turns the loop until the promise is settled, or nothing is left that could settle it.
    fn settled<T: rquickjs::FromJs<'js>>(&self, promise: &Promise<'js>) -> Result<T, Unsettled> {
        loop {
            if self.wire.stop.is_raised() {
                return Err(Unsettled::Stopped);
            }
            if let Some(result) = promise.result::<T>() {
                return self.caught(result);
            }
            if self.ctx.execute_pending_job() {
                continue;
            }
            let now = Instant::now();
            if let Some(op) = self.host.take_due_timer(now) {
                self.settle(op, Ok(None))?;
                continue;
            }
            let received = match self.host.next_timer() {
                Some(due) => self.wire.inbox.recv_timeout(due.saturating_duration_since(now)),
                None if self.host.is_fetching() => {
                    self.wire.inbox.recv().map_err(|_| RecvTimeoutError::Disconnected)
                }
                None => {
                    return Err(Unsettled::Failed(
                        "its promise can never settle: nothing is left to wait for".to_owned(),
                    ));
                }
            };
            match received {
                Ok(ToEngine::Fetched { op, result }) => {
                    self.host.fetched(op);
                    self.settle(op, result.map(Some))?;
                }
                Ok(ToEngine::Call { .. } | ToEngine::Load(_)) | Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Err(Unsettled::Stopped),
            }
        }
    }

    fn settle(&self, op: u32, result: Result<Option<SkillResponse>, String>) -> Result<(), Unsettled> {
        let (fault, response) = match result {
            Ok(response) => (None, response),
            Err(fault) => (Some(fault), None),
        };
        self.caught((|| {
            let response = response.map(|response| value::response(self.ctx, response)).transpose()?;
            self.prelude.get::<_, Function<'js>>("settle")?.call::<_, ()>((op, fault, response))
        })())
    }

    /// Leaves nothing of a call behind: no timer, no waiter, no open transaction.
    fn end_call(&self) {
        self.host.end_call();
        let forgotten =
            self.prelude.get::<_, Function<'js>>("forget").and_then(|forget| forget.call::<_, ()>(()));
        if let Err(error) = forgotten.catch(self.ctx) {
            tracing::debug!(skill = self.setup.skill, error = trace(&error), "a call could not be forgotten");
        }
    }

    fn caught<T>(&self, result: rquickjs::Result<T>) -> Result<T, Unsettled> {
        result.catch(self.ctx).map_err(|error| {
            if self.wire.stop.is_raised() { Unsettled::Stopped } else { Unsettled::Failed(trace(&error)) }
        })
    }
}

fn prelude<'js>(ctx: &Ctx<'js>, host: &Rc<Host>) -> rquickjs::Result<Object<'js>> {
    let mut options = EvalOptions::default();
    options.filename = Some(PRELUDE_NAME.to_owned());
    let make: Function<'js> = ctx.eval_with_options(PRELUDE, options)?;
    make.call((host::object(ctx, host)?,))
}

fn trace(error: &CaughtError<'_>) -> String {
    match error {
        CaughtError::Exception(exception) => {
            let name = exception.as_object().get::<_, String>("name").unwrap_or_else(|_| "Error".to_owned());
            let message = exception.message().unwrap_or_default();
            format!("{name}: {message}\n{}", exception.stack().unwrap_or_default())
        }
        CaughtError::Value(value) => match value.as_string().and_then(|text| text.to_string().ok()) {
            Some(text) => format!("thrown: {text}"),
            None => "something that is no Error was thrown".to_owned(),
        },
        CaughtError::Error(error) => error.to_string(),
    }
}
