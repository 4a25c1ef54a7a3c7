//! `cortex man`.

use crate::arguments::Arguments;
use crate::context::Context;
use crate::exit::{Exit, Failure};
use crate::home::HomeError;
use crate::terminal::talk;
use clap::{Command, CommandFactory};
use std::path::{Path, PathBuf};

/// Print a manual page, or write all of them
///
/// For example: cortex man schedule create | man -l -
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The page of one command, such as send, or schedule create
    command: Vec<String>,
    /// Write the page of every command into this folder, such as ~/.local/share/man/man1
    #[arg(long, value_name = "FOLDER", conflicts_with = "command")]
    dir: Option<PathBuf>,
}

/// A command's page and the name under which it is found.
struct ManualPage {
    name: String,
    text: Vec<u8>,
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, Failure> {
    let mut whole = Arguments::command();
    whole.build();
    if let Some(folder) = &args.dir {
        let pages = pages(&whole, None)?;
        write(&pages, folder)?;
        talk(&format!("{} pages in {}", pages.len(), folder.display()));
        return Ok(Exit::Ok);
    }
    let (mut command, mut name) = (&whole, whole.get_name().to_owned());
    for word in &args.command {
        command = command.find_subcommand(word).ok_or_else(|| {
            Failure::Usage(format!("there is no command {:?}; see cortex --help", args.command.join(" ")))
        })?;
        name = format!("{name}-{}", command.get_name());
    }
    context.terminal.print(&String::from_utf8_lossy(&page(command, name)?.text))?;
    Ok(Exit::Ok)
}

fn page(command: &Command, name: String) -> Result<ManualPage, Failure> {
    let mut text = Vec::new();
    let manual = clap_mangen::Man::new(command.clone()).title(name.clone());
    manual.render(&mut text).map_err(Failure::from_output)?;
    Ok(ManualPage { name, text })
}

/// The pages of a command and of all below it that people type.
fn pages(command: &Command, parent: Option<&str>) -> Result<Vec<ManualPage>, Failure> {
    let name = match parent {
        Some(parent) => format!("{parent}-{}", command.get_name()),
        None => command.get_name().to_owned(),
    };
    let mut all = vec![page(command, name.clone())?];
    for below in command.get_subcommands().filter(|below| !below.is_hide_set() && below.get_name() != "help")
    {
        all.extend(pages(below, Some(&name))?);
    }
    Ok(all)
}

fn write(pages: &[ManualPage], folder: &Path) -> Result<(), Failure> {
    let broken = |error| Failure::from(HomeError::from_io(folder, error));
    std::fs::create_dir_all(folder).map_err(broken)?;
    for page in pages {
        std::fs::write(folder.join(format!("{}.1", page.name)), &page.text).map_err(broken)?;
    }
    Ok(())
}
