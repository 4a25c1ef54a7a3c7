//! `cortex logs`.

use crate::context::Context;
use crate::escape::json_for_terminal;
use crate::exit::{Exit, Failure};
use crate::home::HomeError;
use serde_json::json;
use std::fs::File;
use std::io::{BufRead, BufReader, ErrorKind, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The tail is looked for in this much of the file's end.
const TAIL_BYTES_MAX: u64 = 8 * 1024 * 1024;
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// Show the log of a server that was started with `cortex start`
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Go on showing new lines
    #[arg(short, long)]
    follow: bool,
    /// How many of the last lines
    #[arg(short = 'n', long, default_value_t = 50, value_name = "LINES")]
    lines: usize,
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, Failure> {
    let path = context.home()?.log_file();
    let mut file = match File::open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Err(no_log(path)),
        Err(error) => return Err(HomeError::from_io(&path, error).into()),
    };
    for line in tail(&mut file, args.lines).map_err(|error| HomeError::from_io(&path, error))? {
        show(&line, context)?;
    }
    if args.follow {
        follow(&path, file, context)?;
    }
    Ok(Exit::Ok)
}

fn no_log(path: PathBuf) -> Failure {
    Failure::Coded {
        code: "no_log",
        message: format!("{} is not there yet; `cortex start` writes it", path.display()),
    }
}

fn tail(file: &mut File, lines_max: usize) -> std::io::Result<Vec<String>> {
    let length = file.metadata()?.len();
    let start = length.saturating_sub(TAIL_BYTES_MAX);
    file.seek(SeekFrom::Start(start))?;
    let mut bytes = Vec::new();
    file.take(length - start).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().collect();
    Ok(lines[lines.len().saturating_sub(lines_max)..].iter().map(|line| (*line).to_owned()).collect())
}

/// Shows what is appended, also after the file was put aside for a fresh one.
fn follow(path: &Path, file: File, context: &Context) -> Result<(), Failure> {
    let broken = |error| Failure::from(HomeError::from_io(path, error));
    let mut inode = file.metadata().map_err(broken)?.ino();
    let mut reader = BufReader::new(file);
    let mut line = Vec::new();
    loop {
        let count = reader.read_until(b'\n', &mut line).map_err(broken)?;
        if line.ends_with(b"\n") {
            show(String::from_utf8_lossy(&line).trim_end_matches('\n'), context)?;
            line.clear();
        } else if count == 0 {
            std::thread::sleep(LOOK_AGAIN);
            if let Some(fresh) =
                File::open(path).ok().filter(|fresh| fresh.metadata().is_ok_and(|m| m.ino() != inode))
            {
                inode = fresh.metadata().map_err(broken)?.ino();
                reader = BufReader::new(fresh);
            }
        }
    }
}

fn show(line: &str, context: &Context) -> Result<(), Failure> {
    let terminal = &context.terminal;
    if terminal.json {
        terminal.print(&json_for_terminal(&json!({"line": line}).to_string()))
    } else {
        terminal.print(line)
    }
}
