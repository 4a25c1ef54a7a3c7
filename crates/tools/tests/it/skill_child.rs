//! The program that the process tests start, as `cortex skill-host` is started by a server.

fn main() -> std::io::Result<()> {
    cortex_tools::run_skill_child(std::io::stdin().lock(), std::io::stdout())
}
