//! A real `cortex serve` in a home of its own: started, killed, ended, always by its pid.

use super::expected;
use super::http::{Http, KEY, Reply};
use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use serde::Deserialize;
use serde_json::Value;
use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const START_PATIENCE: Duration = Duration::from_secs(20);
const LOOK_AGAIN: Duration = Duration::from_millis(1);

/// A home that outlives its servers, and how they are started in it.
pub(crate) struct Home {
    folder: TempDir,
    /// Where the folder really is: a tracer shows paths without links.
    root: PathBuf,
    program: PathBuf,
    /// Put in front of the program, such as a tracer.
    pub(crate) wrapper: Vec<OsString>,
    pub(crate) variables: Vec<(String, String)>,
}

/// A server that answers.
pub(crate) struct Server {
    child: Child,
    pub(crate) port: u16,
}

/// A server that ended before it answered, and its last words.
#[derive(Debug)]
pub(crate) struct Refused {
    pub(crate) ended: Option<ExitStatus>,
    pub(crate) stderr: String,
}

impl Refused {
    /// Whether it ended by itself with an error of one line; the log may stand around it.
    pub(crate) fn is_one_line(&self) -> bool {
        let errors = self.stderr.lines().filter(|line| line.starts_with("cortex: ")).count();
        let has_panic =
            ["panicked", "internal_error", "RUST_BACKTRACE"].iter().any(|word| self.stderr.contains(word));
        let failed = self.ended.and_then(|ended| ended.code()).is_some_and(|code| code != 0);
        failed && errors == 1 && !has_panic
    }
}

#[derive(Deserialize)]
struct Listening {
    address: SocketAddr,
}

impl Home {
    pub(crate) fn new(program: &Path, model_delay_ms: u64) -> Result<Self> {
        Self::with_script(program, &expected::script(model_delay_ms))
    }

    /// A home whose model says what this script tells it to.
    pub(crate) fn with_script(program: &Path, script: &Value) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("cortex-faults-").tempdir()?;
        let root = folder.path().canonicalize()?;
        fs::write(root.join("script.json"), script.to_string())?;
        fs::create_dir(root.join("home"))?;
        Ok(Self { folder, root, program: program.to_owned(), wrapper: Vec::new(), variables: Vec::new() })
    }

    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.root.join("home")
    }

    /// A place beside the home.
    pub(crate) fn beside(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// The server as a child that may or may not come to answer.
    pub(crate) fn spawn(&self) -> Result<Child> {
        // A killed server leaves its address behind, and a reader of it would find nobody.
        fs::remove_file(self.address_file()).unwrap_or_default();
        let log = OpenOptions::new().create(true).append(true).open(self.log())?;
        let mut words = self.wrapper.iter().cloned().chain([self.program.clone().into_os_string()]);
        let mut command = Command::new(words.next().context("a program is given")?);
        command
            .args(words)
            .arg("serve")
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default());
        for (name, value) in [
            ("CORTEX_PORT", "0"),
            ("CORTEX_SYNAPSE_URL", "off"),
            ("CORTEX_OLLAMA_URL", "off"),
            ("CORTEX_ENGRAM_URL", "off"),
            ("CORTEX_INGEST_API_KEY", KEY),
            ("CORTEX_OUTBOX_MAX_ATTEMPTS", "1000"),
        ] {
            command.env(name, value);
        }
        command.env("CORTEX_HOME", self.path()).env("CORTEX_SCRIPTED_MODEL", self.beside("script.json"));
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command.current_dir(&self.root).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        command.spawn().with_context(|| format!("cannot start {}", self.program.display()))
    }

    /// Starts a server and waits until it answers or has ended.
    pub(crate) fn start(&self) -> Result<std::result::Result<Server, Refused>> {
        let mut child = self.spawn()?;
        let started = Instant::now();
        loop {
            if let Some(port) = self.port() {
                return Ok(Ok(Server { child, port }));
            }
            let ended = child.try_wait()?;
            if ended.is_some() || started.elapsed() > START_PATIENCE {
                end(&mut child)?;
                return Ok(Err(Refused { ended, stderr: self.stderr() }));
            }
            std::thread::sleep(LOOK_AGAIN);
        }
    }

    /// As `start`, where anything but a running server is a failure.
    pub(crate) fn started(&self) -> Result<Server> {
        match self.start()? {
            Ok(server) => Ok(server),
            Err(refused) => bail!("the server did not start ({:?}):\n{}", refused.ended, refused.stderr),
        }
    }

    /// Everything the servers of this home have said.
    pub(crate) fn stderr(&self) -> String {
        fs::read(self.log()).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
    }

    pub(crate) fn port(&self) -> Option<u16> {
        let listening: Listening = serde_json::from_slice(&fs::read(self.address_file()).ok()?).ok()?;
        Some(listening.address.port())
    }

    /// Keeps the folder for a reader and says where it is.
    pub(crate) fn keep(mut self) -> PathBuf {
        self.folder.disable_cleanup(true);
        self.root
    }

    fn address_file(&self) -> PathBuf {
        self.path().join("run/address")
    }

    fn log(&self) -> PathBuf {
        self.beside("server.log")
    }
}

impl Server {
    /// Ends it as a crash of the machine's software would: no destructor, no last words.
    pub(crate) fn kill(mut self) -> Result<()> {
        end(&mut self.child)
    }

    /// Asks it to stop and waits; `None` when it did not in time and was killed.
    pub(crate) fn terminate(mut self, patience: Duration) -> Result<Option<ExitStatus>> {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw).context("a pid is positive")?;
        kill_process(pid, Signal::TERM)?;
        self.ended_within(patience)
    }

    /// How it ended by itself; `None` when it had not in time and was killed.
    pub(crate) fn ended_within(&mut self, patience: Duration) -> Result<Option<ExitStatus>> {
        let ended = wait(&mut self.child, patience)?;
        if ended.is_none() {
            end(&mut self.child)?;
        }
        Ok(ended)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn has_ended(&mut self) -> Result<bool> {
        Ok(self.child.try_wait()?.is_some())
    }

    /// Whether everything accepted has ended and every reply has been delivered.
    pub(crate) fn is_drained(&self, http: &mut Http) -> bool {
        let Reply::Answered(answer) = http.get(self.port, "/api/v2/status") else { return false };
        let none_left = |queue: &str, words: &[&str]| {
            words.iter().all(|word| answer.body[queue][*word].as_u64().is_some_and(|count| count == 0))
        };
        none_left("inbox", &["pending", "processing", "waiting"])
            && none_left("outbox", &["pending", "leased"])
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The child may have ended already; either way nothing of it is left behind.
        end(&mut self.child).unwrap_or_default();
    }
}

pub(crate) fn wait(child: &mut Child, patience: Duration) -> Result<Option<ExitStatus>> {
    let started = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if started.elapsed() > patience {
            return Ok(None);
        }
        std::thread::sleep(LOOK_AGAIN);
    }
}

pub(crate) fn end(child: &mut Child) -> Result<()> {
    if child.try_wait()?.is_none() {
        child.kill()?;
        child.wait()?;
    }
    Ok(())
}
