//! Runs the real binary in a home of its own, with an environment of its own.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// A home and the variables that every run in it gets; nothing of the test's own environment leaks in.
pub(crate) struct Cortex {
    folder: TempDir,
    variables: Vec<(String, String)>,
}

/// What a run said and how it ended.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Cortex {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap(), variables: Vec::new() }
    }

    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    /// A server on a free port that looks for no model on this machine.
    pub(crate) fn quiet() -> Self {
        Self::new()
            .with("CORTEX_PORT", "0")
            .with("CORTEX_SYNAPSE_URL", "off")
            .with("CORTEX_OLLAMA_URL", "off")
            .with("CORTEX_ENGRAM_URL", "off")
    }

    /// A server whose model answers by this script.
    pub(crate) fn scripted(script: &serde_json::Value) -> Self {
        let cortex = Self::quiet();
        let path = cortex.folder.path().join("script.json");
        std::fs::write(&path, script.to_string()).unwrap();
        cortex.with("CORTEX_SCRIPTED_MODEL", path.to_str().unwrap())
    }

    /// Starts the server; it ends with this value.
    pub(crate) fn started(self) -> Self {
        let ran = self.run(&["start"]);
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), ""), "{}", ran.stderr);
        self
    }

    /// A home whose server.json has this text.
    pub(crate) fn with_file(self, text: &str) -> Self {
        std::fs::create_dir_all(self.home()).unwrap();
        std::fs::write(self.home().join("server.json"), text).unwrap();
        self
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    /// A path beside the home, in the folder where commands run.
    pub(crate) fn beside(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.home().join(name)
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cortex"));
        command.env_clear().env("CORTEX_HOME", self.home()).envs(self.variables.iter().map(|(n, v)| (n, v)));
        command.current_dir(self.folder.path()).args(arguments).stdin(Stdio::null());
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Ran {
        self.ran(&self.command(arguments).output().unwrap())
    }

    pub(crate) fn run_with_input(&self, arguments: &[&str], input: &str) -> Ran {
        let mut command = self.command(arguments);
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        self.ran(&child.wait_with_output().unwrap())
    }

    pub(crate) fn json(&self, arguments: &[&str]) -> serde_json::Value {
        let ran = self.run(arguments);
        assert_eq!(ran.code, Some(0), "{arguments:?}: {ran:?}");
        serde_json::from_str(&ran.stdout).unwrap()
    }

    /// The pid of the running server, from its own mouth.
    pub(crate) fn pid(&self) -> u64 {
        self.json(&["status", "--json"])["server"]["pid"].as_u64().unwrap()
    }

    /// Posts to the server as its owner and gives the answer's body.
    pub(crate) fn post(&self, path: &str, body: &serde_json::Value) -> serde_json::Value {
        let read = |name: &str| -> serde_json::Value {
            serde_json::from_slice(&std::fs::read(self.path(name)).unwrap()).unwrap()
        };
        let (listening, credentials) = (read("run/address"), read("credentials"));
        let address = listening["address"].as_str().unwrap();
        let token = credentials["profiles"]["default"]["token"].as_str().unwrap();
        let body = body.to_string();
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all((head + &body).as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 20"), "{answer}");
        serde_json::from_str(body).unwrap()
    }

    fn ran(&self, output: &std::process::Output) -> Ran {
        let text =
            |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap().replace(&self.shown_home(), "[HOME]");
        Ran { code: output.status.code(), stdout: text(&output.stdout), stderr: text(&output.stderr) }
    }

    fn shown_home(&self) -> String {
        Path::display(&self.home()).to_string()
    }
}

impl Drop for Cortex {
    fn drop(&mut self) {
        if self.path("run/address").exists() {
            self.run(&["stop", "--force"]);
        }
    }
}
