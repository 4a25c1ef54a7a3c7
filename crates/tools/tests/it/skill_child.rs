//! The program that the process tests start, as `cortex skill-host` and `cortex child-host` are started by a server.

use std::process::ExitCode;

fn main() -> std::io::Result<ExitCode> {
    let mut args = std::env::args_os().skip(1);
    if args.next().is_some_and(|role| role == "child-host") {
        let own = std::path::Path::new("/proc/self/exe");
        return cortex_tools::run_child_host(own, &["child-host"], args).map(ExitCode::from);
    }
    cortex_tools::run_skill_child(std::io::stdin().lock(), std::io::stdout())?;
    Ok(ExitCode::SUCCESS)
}
