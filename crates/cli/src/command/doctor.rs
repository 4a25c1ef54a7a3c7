//! `cortex doctor`.

mod connector;
mod home;
mod model;
mod opening;
mod service;
mod tool;

use crate::assemble;
use crate::config::{Effective, Settings, Source, check_exposure, masked};
use crate::context::Context;
use crate::exit::{Exit, Failure};
use crate::terminal::talk;
use serde::Serialize;

/// Say what is wrong with this home and what to do about it: exit 1 when there is a problem
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

pub(crate) fn run(Args {}: &Args, context: &Context) -> Result<Exit, Failure> {
    let home = context.home()?;
    let runtime = context.client_runtime()?;
    let settings = settings(context);
    let holds_secrets = settings.as_ref().is_ok_and(|(effective, _)| file_holds_secrets(effective));
    let mut checks = home::checks(&home, holds_secrets);
    let settings = match settings {
        Ok((effective, settings)) => {
            let message = match effective.file.exists() {
                true => format!("{} is valid", effective.file.display()),
                false => "there is no server.json; the defaults hold".to_owned(),
            };
            checks.push(Check::ok("settings", message));
            Some((effective, settings))
        }
        Err(Failure::Config(error)) => {
            let told = error.messages().into_iter();
            checks.extend(told.map(|message| Check::problem("settings", message.to_owned())));
            None
        }
        Err(failure) => {
            checks.push(Check::problem("settings", failure.to_string()));
            None
        }
    };
    let server = runtime.block_on(service::server(&home, context));
    checks.push(server.check);
    checks.extend(server.status.as_ref().and_then(service::watchdog));
    checks.extend(server.status.as_ref().map(|status| service::storage(status.storage)));
    checks.extend(runtime.block_on(connector::connectors(context)));
    checks.extend(runtime.block_on(tool::held_back(context)));
    let embedder = settings.as_ref().and_then(|(effective, settings)| embedder(effective, settings));
    let (database, counts) = home::database(&home, embedder.as_deref());
    checks.push(database);
    if let (None, Some(counts), Some((_, settings))) = (&server.status, &counts, &settings) {
        checks.push(service::storage_at_rest(counts, settings));
    }
    // Of an older database the next start brings the pins along; of a damaged one it says enough.
    let can_be_looked_at = counts.is_some() || !home.database().exists();
    if let (None, Some((effective, settings)), true) = (&server.status, &settings, can_be_looked_at) {
        checks.extend(runtime.block_on(tool::next_start(settings, effective, &home, context)));
    }
    if let Some((effective, settings)) = &settings {
        let models = server.status.map(|status| status.models);
        checks.push(runtime.block_on(model::model(models, settings, effective, context)));
        checks.extend(model::failing(&home));
        checks.extend(runtime.block_on(tool::calendars(settings, effective, &home, context)));
        checks.push(runtime.block_on(service::engram(settings, effective)));
        checks.extend(service::strangers(settings, effective));
        checks.extend(opening::checks(settings, effective));
        checks.extend(counts.as_ref().map(|counts| opening::users(&counts.users, settings)));
        checks.push(opening::children(settings));
        checks.push(opening::channels(settings));
        checks.extend(opening::hooks(settings));
    }
    if let (Some(counts), Some(embedder)) = (&counts, &embedder) {
        checks.push(service::vectors(counts.vectors, embedder, server.memory.as_ref()));
    }
    checks.extend(counts.iter().flat_map(home::left_behind));
    show(&checks, context)
}

/// What one look came to, and what to do about it.
#[derive(Debug, Serialize)]
struct Check {
    check: &'static str,
    state: CheckState,
    message: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum CheckState {
    Ok,
    Warning,
    Problem,
}

#[derive(Serialize)]
struct Report<'a> {
    checks: &'a [Check],
    problems: usize,
    warnings: usize,
}

impl Check {
    fn ok(check: &'static str, message: impl Into<String>) -> Self {
        Self { check, state: CheckState::Ok, message: message.into() }
    }

    fn warning(check: &'static str, message: impl Into<String>) -> Self {
        Self { check, state: CheckState::Warning, message: message.into() }
    }

    fn problem(check: &'static str, message: impl Into<String>) -> Self {
        Self { check, state: CheckState::Problem, message: message.into() }
    }
}

impl CheckState {
    fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Problem => "problem",
        }
    }
}

/// The settings as a start would read them, refusing what a start would refuse.
fn settings(context: &Context) -> Result<(Effective, Settings), Failure> {
    let effective = context.config()?;
    check_exposure(&effective)?;
    let settings = assemble::settings(&effective)?;
    Ok((effective, settings))
}

/// Whether server.json says something that a listing hides.
fn file_holds_secrets(effective: &Effective) -> bool {
    let from_file = effective.entries.iter().filter(|entry| entry.source == Source::File);
    from_file.into_iter().any(|entry| masked(entry.key, &entry.value) != entry.value)
}

fn embedder(effective: &Effective, settings: &Settings) -> Option<String> {
    let embedder = assemble::embedder(settings, effective).ok()?;
    Some(embedder.name().to_owned())
}

fn show(checks: &[Check], context: &Context) -> Result<Exit, Failure> {
    let count = |state| checks.iter().filter(|check| check.state == state).count();
    let (problems, warnings) = (count(CheckState::Problem), count(CheckState::Warning));
    if context.terminal.json {
        context.terminal.print_json(&Report { checks, problems, warnings })?;
    } else {
        let cells = |check: &Check| {
            vec![check.check.to_owned(), check.state.as_str().to_owned(), check.message.clone()]
        };
        let rows: Vec<Vec<String>> = checks.iter().map(cells).collect();
        context.terminal.print_table(&["check", "state", "what"], &rows)?;
        talk(&format!("problems: {problems}, warnings: {warnings}"));
    }
    Ok(if problems == 0 { Exit::Ok } else { Exit::Error })
}
