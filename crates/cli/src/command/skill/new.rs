//! `cortex skill new`.

use crate::context::Context;
use crate::exit::{Exit, Failure};
use crate::terminal::talk;
use cortex_tools::skill_template;
use std::fs::{DirBuilder, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

/// Make a skill to start from: a folder with manifest, code and types
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Its id: letters, digits, _ and -; the folder gets this name
    id: String,
    /// Where to make the folder [default: here]
    #[arg(long, value_name = "FOLDER")]
    dir: Option<PathBuf>,
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, Failure> {
    let id = &args.id;
    let files = skill_template(id).ok_or_else(|| {
        Failure::Usage(format!("{id:?} is no skill id; use letters, digits, _ and -, at most 40 characters"))
    })?;
    let folder = args.dir.as_ref().map_or_else(|| PathBuf::from(id), |dir| dir.join(id));
    make_folder(&folder)?;
    let mut made = Vec::with_capacity(files.len());
    for file in files {
        let path = folder.join(file.name);
        write_file(&path, &file.text).map_err(|error| cannot(&path, &error))?;
        made.push(path.display().to_string());
    }
    if context.terminal.json {
        context.terminal.print_json(&serde_json::json!({"id": id, "files": made}))?;
    } else {
        context.terminal.print(&made.join("\n"))?;
        advise(args, &folder, context)?;
    }
    Ok(Exit::Ok)
}

fn make_folder(folder: &Path) -> Result<(), Failure> {
    if folder.exists() {
        let message = format!("{} is there already; choose another id, or move it away", folder.display());
        return Err(Failure::Coded { code: "exists", message });
    }
    DirBuilder::new().recursive(true).create(folder).map_err(|error| cannot(folder, &error))
}

fn write_file(path: &Path, text: &str) -> std::io::Result<()> {
    OpenOptions::new().write(true).create_new(true).open(path)?.write_all(text.as_bytes())
}

fn cannot(path: &Path, error: &std::io::Error) -> Failure {
    Failure::Coded { code: "cannot_write", message: format!("{}: {error}", path.display()) }
}

/// The way from here to a skill that the assistant uses.
fn advise(args: &Args, folder: &Path, context: &Context) -> Result<(), Failure> {
    let (program, id, shown) = (context.program(), &args.id, folder.display());
    let beside = std::path::absolute(folder).map_err(|error| cannot(folder, &error))?;
    let beside = beside.parent().unwrap_or(&beside).display().to_string();
    let settings = context.home()?.path().join("server.json");
    talk("skill.d.ts has the types of everything a skill can use; main.ts is where to begin");
    talk(&format!("check it:  {program} skill check {shown}"));
    talk(&format!("try it:    {program} skill run {id}.recall '{{}}' --dir {shown}"));
    talk(&format!(
        "use it:    put \"skillDirs\": [{beside:?}] into {}, then {program} restart",
        settings.display()
    ));
    talk("           (every folder in a skill directory must be a skill)");
    Ok(())
}
