//! Runs enabled connectors as processes of their own: started with the server, restarted when they end, ended with it.

use crate::assemble::own_program;
use crate::config::Effective;
use crate::environment::Environment;
use crate::exit::{Exit, Failure};
use crate::home::Home;
use cortex_api::{Client, ClientError, ConnectorRow, ConnectorState, KeyRequest};
use cortex_server::ConnectorBoard;
use cortex_types::{Clock, SystemClock};
use rustix::process::{Pid, Signal, kill_process};
use secrecy::{ExposeSecret, SecretString};
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tokio::process::{Child, Command};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Waits before the next start; the last one repeats.
const DELAYS: [Duration; 6] = [
    Duration::ZERO,
    Duration::from_secs(1),
    Duration::from_secs(5),
    Duration::from_secs(15),
    Duration::from_secs(30),
    Duration::from_secs(60),
];
/// Who was up so long begins with the first wait again.
const STEADY: Duration = Duration::from_secs(60);
const GRACE: Duration = Duration::from_secs(10);
const LINE_CHARS_MAX: usize = 1_000;

/// Variables of the server that its connectors get: where programs, certificates and times are, and the way out. Everything else
/// may be a key, and a connector reads what strangers write.
const PASSED_ON: &[&str] = &[
    "PATH",
    "HOME",
    "LANG",
    "LC_ALL",
    "TZ",
    "TMPDIR",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "no_proxy",
];

/// The environment of a connector, but for its server and key.
pub(crate) fn handed(name: &str, effective: &Effective, environment: &Environment) -> Vec<(String, String)> {
    let inherited = environment.iter().filter(|(name, _)| PASSED_ON.contains(name));
    let inherited = inherited.map(|(name, value)| (name.to_owned(), value.to_owned()));
    inherited.chain(effective.handed_to(name)).collect()
}

/// The connectors of one server.
pub(crate) struct Supervisor {
    stop: CancellationToken,
    keepers: Vec<JoinHandle<()>>,
}

/// What keeps one connector running.
struct Keeper {
    name: &'static str,
    program: PathBuf,
    home: PathBuf,
    server_url: String,
    key: SecretString,
    /// Its environment.
    handed: Vec<(String, String)>,
    board: ConnectorBoard,
    stop: CancellationToken,
}

/// How a run of the process ended.
enum Ended {
    Stopped,
    /// Another start changes nothing.
    Misconfigured(String),
    Failed(String),
}

impl Supervisor {
    /// Starts a keeper for each of these connectors.
    pub(crate) async fn start(
        names: &[&'static str],
        home: &Home,
        client: &Client,
        board: &ConnectorBoard,
        handed: impl Fn(&str) -> Vec<(String, String)>,
    ) -> Result<Self, Failure> {
        let stop = CancellationToken::new();
        let program = own_program()?;
        let mut keepers = Vec::with_capacity(names.len());
        for name in names {
            let keeper = Keeper {
                name,
                program: program.clone(),
                home: home.path().to_owned(),
                server_url: client.base_url().to_owned(),
                key: own_key(client, name).await?,
                handed: handed(name),
                board: board.clone(),
                stop: stop.clone(),
            };
            keepers.push(tokio::spawn(keeper.run()));
        }
        Ok(Self { stop, keepers })
    }

    /// Ends every connector: asked first, killed when that does not help.
    pub(crate) async fn stop(self) {
        self.stop.cancel();
        for keeper in self.keepers {
            if let Err(error) = keeper.await {
                tracing::error!(%error, "A keeper of a connector broke");
            }
        }
    }
}

impl Keeper {
    async fn run(self) {
        let (mut failures, mut restarts) = (0, 0);
        let mut last_error = None;
        loop {
            let started = Instant::now();
            let ended = match self.spawn() {
                Ok(child) => self.watch(child, restarts, last_error.take()).await,
                Err(error) => Ended::Failed(format!("cannot start: {error}")),
            };
            match ended {
                Ended::Stopped => return,
                Ended::Misconfigured(reason) => {
                    tracing::error!(
                        connector = self.name,
                        reason,
                        "The connector is misconfigured and stays off"
                    );
                    self.show(ConnectorState::Misconfigured, None, restarts, Some(reason));
                    return;
                }
                Ended::Failed(reason) => {
                    failures = if started.elapsed() >= STEADY { 0 } else { failures };
                    let wait = delay_after(failures);
                    failures += 1;
                    tracing::warn!(
                        connector = self.name,
                        reason,
                        wait_s = wait.as_secs(),
                        "The connector ended; it is started again"
                    );
                    self.show(ConnectorState::Backoff, None, restarts, Some(reason.clone()));
                    last_error = Some(reason);
                    restarts += 1;
                    tokio::select! {
                        () = self.stop.cancelled() => return,
                        () = tokio::time::sleep(wait) => {}
                    }
                }
            }
        }
    }

    fn spawn(&self) -> std::io::Result<Child> {
        Command::new(&self.program)
            .arg0("cortex")
            .arg("--home")
            .arg(&self.home)
            .args(["connector", self.name, "--supervised"])
            .env_clear()
            .envs(self.handed.iter().map(|(name, value)| (name, value)))
            // It speaks with this server and with a key of its own, whatever the shell names.
            .env("CORTEX_SERVER_URL", &self.server_url)
            .env("CORTEX_TOKEN", self.key.expose_secret())
            // Its end tells the child that we are gone, however we went.
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            // A Ctrl-C at the terminal is for the server, which then ends the child.
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
    }

    async fn watch(&self, mut child: Child, restarts: u32, last_error: Option<String>) -> Ended {
        let _life_line = child.stdin.take();
        self.show(ConnectorState::Running, child.id(), restarts, last_error);
        tracing::info!(connector = self.name, pid = child.id(), "The connector runs");
        let talk = child.stderr.take().map(|stderr| tokio::spawn(pass_on(self.name, stderr)));
        let status = tokio::select! {
            () = self.stop.cancelled() => {
                end(self.name, &mut child).await;
                return Ended::Stopped;
            }
            status = child.wait() => status,
        };
        let last_words = match talk {
            Some(talk) => talk.await.unwrap_or_default(),
            None => String::new(),
        };
        match status {
            Ok(status) => ended_by(status, last_words),
            Err(error) => Ended::Failed(error.to_string()),
        }
    }

    fn show(&self, state: ConnectorState, pid: Option<u32>, restarts: u32, last_error: Option<String>) {
        let since = SystemClock::start().now().into();
        self.board.write(ConnectorRow {
            name: self.name.to_owned(),
            state,
            pid,
            since,
            restarts,
            last_error,
        });
    }
}

/// A key that opens the source of this connector and nothing else. That of the start before ends.
async fn own_key(client: &Client, connector: &str) -> Result<SecretString, ClientError> {
    let name = format!("connector {connector}");
    match client.revoke_key(&name).await {
        Ok(_) | Err(ClientError::Api { status: 404, .. }) => {}
        Err(error) => return Err(error),
    }
    let made = client.create_key(&KeyRequest { name, source: connector.to_owned() }).await?;
    Ok(made.key.into())
}

fn delay_after(failures: usize) -> Duration {
    DELAYS[failures.min(DELAYS.len() - 1)]
}

fn ended_by(status: ExitStatus, last_words: String) -> Ended {
    match status.code() {
        Some(code) if code == i32::from(Exit::Config.code()) => Ended::Misconfigured(last_words),
        Some(_) | None if last_words.is_empty() => Ended::Failed(status.to_string()),
        Some(_) | None => Ended::Failed(format!("{status}: {last_words}")),
    }
}

/// Asks the child to end; kills it when it does not.
async fn end(name: &str, child: &mut Child) {
    let pid = child.id().and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw);
    if let Some(pid) = pid
        && let Err(error) = kill_process(pid, Signal::TERM)
    {
        tracing::warn!(connector = name, %error, "The connector cannot be asked to end");
    }
    if tokio::time::timeout(GRACE, child.wait()).await.is_err() {
        tracing::warn!(connector = name, "The connector does not end; it is killed");
        if let Err(error) = child.kill().await {
            tracing::error!(connector = name, %error, "The connector cannot be killed");
        }
    }
}

/// Puts what the child says into our log, and gives its last words: what it said when it gave up.
async fn pass_on(name: &'static str, stderr: impl AsyncRead + Unpin) -> String {
    let mut lines = BufReader::new(stderr).lines();
    let mut last_words = String::new();
    while let Ok(Some(line)) = lines.next_line().await {
        let line: String = line.trim().chars().take(LINE_CHARS_MAX).collect();
        match line.split_once(' ') {
            Some(("ERROR", said)) => tracing::error!(connector = name, "{}", said.trim_start()),
            Some(("WARN", said)) => tracing::warn!(connector = name, "{}", said.trim_start()),
            Some(("DEBUG" | "TRACE", said)) => tracing::debug!(connector = name, "{}", said.trim_start()),
            Some(("INFO", said)) => tracing::info!(connector = name, "{}", said.trim_start()),
            Some(_) | None if line.is_empty() => {}
            Some(_) | None => {
                tracing::warn!(connector = name, "{line}");
                add_words(&mut last_words, &line);
            }
        }
    }
    last_words
}

/// What is told over several lines and drawn with frames becomes one line.
fn add_words(words: &mut String, line: &str) {
    let is_drawn = |letter: char| matches!(letter, '\u{2500}'..='\u{257f}' | '×' | ' ');
    let line = line.trim_matches(is_drawn);
    let line = line.strip_prefix("cortex: ").unwrap_or(line);
    if !line.is_empty() && words.len() + line.len() < LINE_CHARS_MAX {
        let divider = if words.is_empty() { "" } else { " " };
        words.push_str(&format!("{divider}{line}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;

    #[test]
    fn waits_grow_from_none_to_a_minute() {
        let waits: Vec<u64> = (0..8).map(|failures| delay_after(failures).as_secs()).collect();
        assert_eq!(waits, [0, 1, 5, 15, 30, 60, 60, 60]);
    }

    #[test]
    fn only_the_code_for_wrong_settings_ends_the_restarts() {
        let code = |code: i32| ended_by(ExitStatus::from_raw(code << 8), "why".to_owned());
        assert!(matches!(code(78), Ended::Misconfigured(reason) if reason == "why"));
        assert!(matches!(code(1), Ended::Failed(reason) if reason == "exit status: 1: why"));
        assert!(matches!(code(0), Ended::Failed(_)));
        assert!(
            matches!(ended_by(ExitStatus::from_raw(9), String::new()), Ended::Failed(reason) if reason.contains("signal"))
        );
    }

    #[test]
    fn last_words_over_several_lines_become_one() {
        let mut words = String::new();
        for line in ["cortex: misconfigured: no", "  × a", "  │ ", "  ╰─▶ b", "help: do this"] {
            add_words(&mut words, line);
        }
        assert_eq!(words, "misconfigured: no a ▶ b help: do this");
    }
}
