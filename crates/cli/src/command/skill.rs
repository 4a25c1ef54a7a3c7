//! `cortex skill`.

mod awaiting;
mod check;
mod list;
mod new;
mod run;
mod trust;

use crate::assemble;
use crate::config::{Settings, Undeclared};
use crate::context::Context;
use crate::exit::{Exit, Failure};
use cortex_tools::{Mutation, SeenTrust, SkillOptions, SkillProblem, SkillSet};
use std::path::PathBuf;

/// Write, check and run skills, and see what the assistant can do
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    List(list::Args),
    Check(check::Args),
    New(new::Args),
    Run(run::Args),
    Trust(trust::Args),
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, Failure> {
    match &args.action {
        Action::List(args) => list::run(args, context),
        Action::Check(args) => check::run(args, context),
        Action::New(args) => new::run(args, context),
        Action::Run(args) => run::run(args, context),
        Action::Trust(args) => trust::run(args, context),
    }
}

/// Whether every skill of skillDirs would load. Code that is not trusted does not run.
pub(super) fn check_all(context: &Context) -> Result<(), Failure> {
    let (_, options) = configured(context)?;
    // A start tells what is wrong with the database, and mends what can be mended; without the pins nothing may run.
    let Ok(trusted) = SeenTrust::of(&context.home()?.database()) else { return Ok(()) };
    let (_, problems) = context.client_runtime()?.block_on(SkillSet::survey(&options, &trusted));
    if problems.is_empty() { Ok(()) } else { Err(Failure::Skills(problems)) }
}

/// What this home trusts, whether or not a server runs.
fn trusted_here(context: &Context) -> Result<SeenTrust, Failure> {
    SeenTrust::of(&context.home()?.database())
        .map_err(|error| Failure::Coded { code: "storage_unavailable", message: error.to_string() })
}

/// What server.json says about skills.
fn configured(context: &Context) -> Result<(Settings, SkillOptions), Failure> {
    let effective = context.config()?;
    let settings = assemble::settings(&effective)?;
    let options = assemble::skills(&settings, &effective, &context.home()?)?;
    Ok((settings, options))
}

/// The folder of a skill in one of the `skillDirs`.
fn folder_of(skill: &str, options: &SkillOptions) -> Option<PathBuf> {
    options.dirs.iter().map(|dir| dir.join(skill)).find(|folder| folder.is_dir())
}

/// Whether a person is asked before such a tool runs (D10).
fn asks_first(mutation: Mutation, settings: &Settings) -> bool {
    match mutation {
        Mutation::ReadOnly => false,
        Mutation::Mutates => true,
        Mutation::Undeclared => settings.undeclared_tools == Undeclared::Ask,
    }
}

/// Skills that cannot be loaded, told to their author; each line names its own file and fix.
fn broken(problems: &[SkillProblem]) -> Failure {
    Failure::Plain(problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))
}
