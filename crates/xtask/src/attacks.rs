//! `cargo xtask attacks`: does to a running server what strangers and hostile neighbours would, and counts what got through.

mod approval;
mod child;
mod clock;
mod contract;
mod crowd;
mod door;
mod egress;
mod far_side;
mod file;
mod flood;
mod group;
mod hoard;
mod injection;
mod judgement;
mod key;
mod keyless;
mod mcp;
mod meaning;
mod mode;
mod number;
mod offer;
mod openai;
mod outbound;
mod question;
mod relay;
mod schema;
mod secret;
mod shown;
mod socket;
mod storage;
mod target;
mod terminal;
mod unsettled;
mod wire;

use crate::USAGE_ERROR;
use crate::child::Workplace;
use crate::faults::Extent;
use crate::faults::build;
use anyhow::Result;
use judgement::{Judgement, Line};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;
use target::Arena;

/// One thing that must not work.
pub(crate) struct Attack {
    pub(crate) name: &'static str,
    /// The statement about security that it tries to break.
    pub(crate) statement: &'static str,
    /// Whether it is part of the short form.
    pub(crate) extent: Extent,
    pub(crate) run: fn(&Arena, &mut Judgement) -> Result<()>,
}

/// Every class of attack has a file of its own with its list.
const CLASSES: &[&[Attack]] = &[
    door::ATTACKS,
    key::ATTACKS,
    keyless::ATTACKS,
    group::ATTACKS,
    approval::ATTACKS,
    shown::ATTACKS,
    question::ATTACKS,
    injection::ATTACKS,
    egress::ATTACKS,
    secret::ATTACKS,
    file::ATTACKS,
    terminal::ATTACKS,
    child::ATTACKS,
    mcp::ATTACKS,
    offer::ATTACKS,
    unsettled::ATTACKS,
    number::ATTACKS,
    meaning::ATTACKS,
    schema::ATTACKS,
    mode::ATTACKS,
    clock::ATTACKS,
    openai::ATTACKS,
    relay::ATTACKS,
    contract::ATTACKS,
    flood::ATTACKS,
    crowd::ATTACKS,
    storage::ATTACKS,
    hoard::ATTACKS,
    outbound::ATTACKS,
];

const USAGE: &str = "usage: cargo xtask attacks [--short] [--only NAME] [--program FILE]";

#[derive(Debug, PartialEq, Eq)]
struct Options {
    extent: Extent,
    /// Attacks whose name has this in it.
    only: Option<String>,
    /// Attack this program instead of a release build of the tree.
    program: Option<PathBuf>,
}

pub(crate) fn run(root: &Path, arguments: &[String]) -> Result<ExitCode> {
    let Some(options) = parse(arguments) else {
        eprintln!("{USAGE}");
        return Ok(ExitCode::from(USAGE_ERROR));
    };
    let search_path = std::env::var_os("PATH").unwrap_or_default();
    let workplace = Workplace { root: root.to_owned(), search_path };
    let program = match &options.program {
        Some(program) => program.canonicalize()?,
        None => build::shipped(&workplace, options.extent)?,
    };
    let arena = Arena { program };
    let is_chosen = |attack: &&Attack| {
        let is_short_enough = options.extent == Extent::Full || attack.extent == Extent::Short;
        is_short_enough && options.only.as_ref().is_none_or(|only| attack.name.contains(only.as_str()))
    };
    let chosen = CLASSES.iter().copied().flatten().filter(is_chosen);
    let lines: Vec<Line> = chosen.map(|attack| perform(attack, &arena)).collect();
    println!("\n{}", judgement::closing(&lines));
    let require_all = crate::test::requires_all();
    let is_green = !lines.is_empty() && lines.iter().all(|line| line.is_green(require_all));
    Ok(if is_green { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn perform(attack: &Attack, arena: &Arena) -> Line {
    let started = Instant::now();
    let mut judgement = Judgement::default();
    if let Err(error) = (attack.run)(arena, &mut judgement) {
        judgement.broke(&error);
    }
    let line = Line { name: attack.name, statement: attack.statement, judgement, took: started.elapsed() };
    println!("{line}");
    line
}

fn parse(arguments: &[String]) -> Option<Options> {
    let mut options = Options { extent: Extent::Full, only: None, program: None };
    let mut words = arguments.iter().map(String::as_str);
    while let Some(word) = words.next() {
        match word {
            "--short" => options.extent = Extent::Short,
            "--only" => options.only = Some(words.next()?.to_owned()),
            "--program" => options.program = Some(words.next()?.into()),
            _ => return None,
        }
    }
    Some(options)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Option<Options> {
        parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn a_run_has_every_attack_unless_it_is_asked_to_be_short() {
        assert_eq!(parsed("").unwrap().extent, Extent::Full);
        let short = parsed("--short --only keyless --program cortex").unwrap();
        assert_eq!((short.extent, short.only.as_deref()), (Extent::Short, Some("keyless")));
        assert_eq!(parsed("--only"), None);
        assert_eq!(parsed("--shorter"), None);
    }

    #[test]
    fn no_two_attacks_have_one_name() {
        let mut names: Vec<&str> = CLASSES.iter().copied().flatten().map(|attack| attack.name).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
