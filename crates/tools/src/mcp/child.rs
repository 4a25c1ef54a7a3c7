//! A server as a child process: its own process group, a scrubbed environment, and what it said on stderr.

use super::McpSettings;
use super::config::McpServer;
use crate::child::{GroupChild, HostOrder, Start};
use secrecy::ExposeSecret;
use std::collections::VecDeque;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{ChildStdin, ChildStdout};
use tokio::task::JoinHandle;

/// What a child gets of our own environment; the rest may hold keys.
const PASSED_ON: &[&str] = &["PATH", "HOME", "LANG", "TZ", "TMPDIR"];
const STDERR_LINE_BYTES_MAX: usize = 1_000;
const STDERR_LINES_LOGGED_MAX: usize = 200;
/// How many last lines explain an end.
const LAST_WORDS: usize = 4;
const LAST_WORDS_WAIT: Duration = Duration::from_millis(500);

/// A running child. Dropping it kills its whole group.
pub(super) struct McpChild {
    running: GroupChild,
    stderr: Option<JoinHandle<String>>,
}

impl McpChild {
    /// Starts the program with its arguments as they are, behind a host where there is one.
    pub(super) fn start(
        name: &str,
        server: &McpServer,
        settings: &McpSettings,
    ) -> io::Result<(Self, ChildStdout, ChildStdin)> {
        let McpServer::Stdio { command, args, env, cwd, unconfined, limits } = server else {
            return Err(io::Error::other("this server is no program"));
        };
        let inherited = settings.environment.iter().filter(|(name, _)| PASSED_ON.contains(&name.as_str()));
        let given = env.iter().map(|(name, value)| (name.clone(), value.expose_secret().to_owned()));
        let (program, args) = match &settings.host {
            None => (PathBuf::from(command), args.iter().map(OsString::from).collect()),
            Some(host) => {
                let closed = if *unconfined { Vec::new() } else { host.closed.clone() };
                let order = HostOrder {
                    named: named_in(&closed, command, args, cwd.as_deref()),
                    closed,
                    minder: None,
                    server: i32::try_from(std::process::id()).ok(),
                    limits: *limits,
                };
                let order = serde_json::to_string(&order).map_err(io::Error::other)?;
                let own = host.args.iter().map(OsString::from);
                let all = own.chain([order.into(), command.into()]).chain(args.iter().map(OsString::from));
                (host.program.clone(), all.collect())
            }
        };
        let start = Start {
            program: &program,
            args,
            environment: inherited.map(|(name, value)| (name.clone(), value.clone())).chain(given).collect(),
            folder: cwd.as_deref(),
            stderr: Stdio::piped(),
        };
        let mut running = start.spawn()?;
        let child = &mut running.child;
        let (Some(stdout), Some(stdin), Some(stderr)) =
            (child.stdout.take(), child.stdin.take(), child.stderr.take())
        else {
            return Err(io::Error::other("no pipes to the program"));
        };
        let stderr = Some(tokio::spawn(log_stderr(name.to_owned(), stderr)));
        Ok((Self { running, stderr }, stdout, stdin))
    }

    /// Waits for its end, and says how it ended.
    pub(super) async fn ended(&mut self) -> String {
        let status = match self.running.child.wait().await {
            Ok(status) => status.to_string(),
            Err(error) => error.to_string(),
        };
        format!("it ended ({status})")
    }

    /// Kills what is left of it and gives the last lines it wrote for people.
    pub(super) async fn last_words(&mut self) -> Option<String> {
        self.running.kill();
        let stderr = self.stderr.take()?;
        let words = tokio::time::timeout(LAST_WORDS_WAIT, stderr).await.ok()?.ok()?;
        Some(words).filter(|words| !words.is_empty())
    }
}

/// What a server's own entry names inside closed folders stays open to it.
fn named_in(closed: &[PathBuf], command: &str, args: &[String], cwd: Option<&Path>) -> Vec<PathBuf> {
    let words = std::iter::once(command).chain(args.iter().map(String::as_str)).map(Path::new).chain(cwd);
    let real = words.filter(|path| path.is_absolute()).filter_map(|path| path.canonicalize().ok());
    real.filter(|path| closed.iter().any(|folder| path.starts_with(folder) && path != folder)).collect()
}

/// Reads to the end, so that the child never waits for a full pipe, and gives the last lines.
async fn log_stderr(server: String, mut stderr: impl AsyncRead + Unpin) -> String {
    let mut chunk = [0; 4096];
    let mut line = Vec::new();
    let mut last = VecDeque::new();
    let mut logged = 0;
    let mut take = |line: &mut Vec<u8>| {
        let text = String::from_utf8_lossy(line).trim().to_owned();
        line.clear();
        if text.is_empty() {
            return;
        }
        if logged < STDERR_LINES_LOGGED_MAX {
            tracing::debug!(%server, stderr = %text, "an MCP server wrote");
        } else if logged == STDERR_LINES_LOGGED_MAX {
            tracing::debug!(%server, "an MCP server writes much; the rest is not logged");
        }
        logged += 1;
        last.push_back(text);
        if last.len() > LAST_WORDS {
            last.pop_front();
        }
    };
    while let Ok(length @ 1..) = stderr.read(&mut chunk).await {
        for byte in &chunk[..length] {
            if *byte == b'\n' {
                take(&mut line);
            } else if line.len() < STDERR_LINE_BYTES_MAX {
                line.push(*byte);
            }
        }
    }
    take(&mut line);
    Vec::from(last).join(" | ")
}
