//! Runs npm's `@copilotkit/aimock`, a third party's idea of how OpenAI, Anthropic and Gemini answer.

use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;
use tempfile::TempDir;

/// Where the package is installed, when it is not in `target/npm/aimock`.
const FOLDER_VARIABLE: &str = "CORTEX_AIMOCK";
/// Set to `1` where a suite that cannot run is a failure.
const REQUIRE_ALL_VARIABLE: &str = "CORTEX_REQUIRE_ALL";
const START_MAX: Duration = Duration::from_secs(30);

/// A running fake; it ends when this is dropped.
#[derive(Debug)]
pub struct Aimock {
    child: Child,
    url: String,
    _fixtures: TempDir,
}

impl Aimock {
    /// Starts the fake on a free port with a list of fixtures (`[{"match": …, "response": …}]`).
    ///
    /// Where it is not installed this says so and gives `None`: the test has nothing to do.
    /// With `CORTEX_REQUIRE_ALL=1` it is an error instead.
    pub fn start(fixtures: &serde_json::Value) -> io::Result<Option<Self>> {
        match Self::try_start(fixtures) {
            Ok(running) => Ok(Some(running)),
            Err(error) if std::env::var_os(REQUIRE_ALL_VARIABLE).is_some_and(|value| value == "1") => {
                Err(error)
            }
            Err(error) => {
                writeln!(io::stderr(), "SKIPPED aimock: npm ({error})")?;
                Ok(None)
            }
        }
    }

    /// The address of all its wires, without a path.
    pub fn url(&self) -> &str {
        &self.url
    }

    fn try_start(fixtures: &serde_json::Value) -> io::Result<Self> {
        let bin = folder().join("node_modules/.bin");
        let folder = TempDir::new()?;
        let file = folder.path().join("fixtures.json");
        std::fs::write(&file, serde_json::json!({ "fixtures": fixtures }).to_string())?;
        let child = Command::new(bin.join("llmock"))
            .args(["--host", "127.0.0.1", "--port", "0", "--fixtures"])
            .arg(&file)
            .env("PATH", path_with(&bin)?)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        // From here on dropping it ends the child, also when it never says where it listens.
        let mut running = Self { child, url: String::new(), _fixtures: folder };
        running.url = running.wait_for_address()?;
        Ok(running)
    }

    fn wait_for_address(&mut self) -> io::Result<String> {
        let output = self.child.stdout.take().ok_or_else(|| io::Error::other("no output to read"))?;
        let (found, address) = mpsc::channel();
        // Reads to the end, so that the fake never waits for a full pipe.
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if let Some((_, url)) = line.split_once("listening on ") {
                    // The other side has given up when this fails; there is nobody left to tell.
                    found.send(url.trim().to_owned()).unwrap_or_default();
                }
            }
        });
        address
            .recv_timeout(START_MAX)
            .map_err(|_| io::Error::other("it did not start; is Node 20 or newer there?"))
    }
}

impl Drop for Aimock {
    fn drop(&mut self) {
        // A child that has already ended cannot be killed, which is as good.
        self.child.kill().and_then(|()| self.child.wait().map(drop)).unwrap_or_default();
    }
}

fn folder() -> PathBuf {
    let installed = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/npm/aimock");
    std::env::var_os(FOLDER_VARIABLE).map_or_else(installed, PathBuf::from)
}

/// The package may have brought its own Node.
fn path_with(bin: &Path) -> io::Result<std::ffi::OsString> {
    let machine = std::env::var_os("PATH").unwrap_or_default();
    let folders = [bin.to_owned()].into_iter().chain(std::env::split_paths(&machine));
    std::env::join_paths(folders).map_err(io::Error::other)
}
