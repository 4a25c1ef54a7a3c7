//! The program that the process tests start, as `cortex skill-host` and `cortex child-host` are started by a server; and
//! a server of one skill that a test can kill.

use cortex_tools::{SkillIsolation, SkillOptions, SkillSet};
use std::ffi::OsString;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

fn main() -> io::Result<ExitCode> {
    let mut args = std::env::args_os().skip(1);
    match args.next() {
        Some(role) if role == "child-host" => {
            let own = std::path::Path::new("/proc/self/exe");
            cortex_tools::run_child_host(own, &["child-host"], args).map(ExitCode::from)
        }
        Some(role) if role == "skill-server" => serve(args),
        Some(_) | None => {
            cortex_tools::run_skill_child(io::stdin().lock(), io::stdout())?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// Loads the skill of a folder, with a folder for its database, and says which process it has.
fn serve(mut args: impl Iterator<Item = OsString>) -> io::Result<ExitCode> {
    let missing = || io::Error::other("give the folder of a skill and one for its database");
    let skill = PathBuf::from(args.next().ok_or_else(missing)?);
    let options = SkillOptions {
        data_dir: PathBuf::from(args.next().ok_or_else(missing)?),
        isolation: SkillIsolation::Process { program: std::env::current_exe()?, args: Vec::new() },
        ..SkillOptions::default()
    };
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?.block_on(async {
        let loaded = SkillSet::load_folder(&skill, &options).await;
        let (set, _) = loaded.map_err(|problems| io::Error::other(format!("{problems:?}")))?;
        for skill in set.skills() {
            writeln!(io::stdout(), "{}", skill.process_id().await.unwrap_or_default())?;
        }
        std::future::pending().await
    })
}
