//! A server as a child process: its own process group, a scrubbed environment, and what it said on stderr.

use super::config::McpServer;
use crate::descriptors;
use rustix::process::{Pid, Signal, kill_process_group};
use secrecy::ExposeSecret;
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
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
    child: Child,
    group: Option<Pid>,
    stderr: Option<JoinHandle<String>>,
}

impl McpChild {
    /// Starts the program with its arguments as they are; there is no shell in between.
    pub(super) fn start(
        name: &str,
        server: &McpServer,
        environment: &BTreeMap<String, String>,
    ) -> io::Result<(Self, ChildStdout, ChildStdin)> {
        let McpServer::Stdio { command, args, env, cwd } = server else {
            return Err(io::Error::other("this server is no program"));
        };
        let inherited = environment.iter().filter(|(name, _)| PASSED_ON.contains(&name.as_str()));
        let mut program = Command::new(command);
        program
            .args(args)
            .env_clear()
            .envs(inherited)
            .envs(env.iter().map(|(name, value)| (name, value.expose_secret())))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true);
        if let Some(folder) = cwd {
            program.current_dir(folder);
        }
        descriptors::keep_from_children();
        let mut child = program.spawn()?;
        let group = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        let pipes = (child.stdout.take(), child.stdin.take(), child.stderr.take());
        let mut started = Self { child, group, stderr: None };
        let (Some(stdout), Some(stdin), Some(stderr)) = pipes else {
            return Err(io::Error::other("no pipes to the program"));
        };
        started.stderr = Some(tokio::spawn(log_stderr(name.to_owned(), stderr)));
        Ok((started, stdout, stdin))
    }

    /// Waits for its end, and says how it ended.
    pub(super) async fn ended(&mut self) -> String {
        let status = match self.child.wait().await {
            Ok(status) => status.to_string(),
            Err(error) => error.to_string(),
        };
        format!("it ended ({status})")
    }

    /// Kills what is left of it and gives the last lines it wrote for people.
    pub(super) async fn last_words(&mut self) -> Option<String> {
        self.kill_group();
        let stderr = self.stderr.take()?;
        let words = tokio::time::timeout(LAST_WORDS_WAIT, stderr).await.ok()?.ok()?;
        Some(words).filter(|words| !words.is_empty())
    }

    fn kill_group(&mut self) {
        // Once only: when the group is gone its number can become another's.
        if let Some(group) = self.group.take()
            && let Err(error) = kill_process_group(group, Signal::KILL)
        {
            tracing::trace!(%error, "the process group had already ended");
        }
    }
}

impl Drop for McpChild {
    fn drop(&mut self) {
        self.kill_group();
    }
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
