//! Runs other people's clients, as scripts for Node or Python with the packages that `cargo xtask test` installs.

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::Duration;
use tokio::process::Command;

/// Set to `1` where a suite that cannot run is a failure.
const REQUIRE_ALL_VARIABLE: &str = "CORTEX_REQUIRE_ALL";
/// A client that takes longer hangs; on a busy machine honest ones take their time.
const RUN_MAX: Duration = Duration::from_secs(280);

/// Whose client a script uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ForeignClients {
    /// npm `openai`, in `target/npm/openai`.
    Node,
    /// npm `ai` of Vercel with its providers for OpenAI, in `target/npm/ai`.
    VercelAi,
    /// PyPI `openai`, `langchain-openai`, `cloudevents`, `websockets` and `standardwebhooks`, in `target/pypi/clients`.
    Python,
    /// PyPI `litellm`, in `target/pypi/litellm`: it wants other versions than the clients beside it.
    Litellm,
    /// PyPI `schemathesis`, in `target/pypi/schemathesis`.
    Schemathesis,
}

impl ForeignClients {
    /// Runs a script to its end and gives what it wrote to its standard output, or the whole of it as an error when it
    /// failed. `None` when its packages are not there.
    pub async fn run(self, script: &Path, variables: &[(&str, &str)]) -> io::Result<Option<String>> {
        let Some(mut command) = self.command(script)? else { return Ok(None) };
        command.envs(variables.iter().copied());
        let output = tokio::time::timeout(RUN_MAX, command.output())
            .await
            .map_err(|_| io::Error::other(format!("{} never ended", script.display())))??;
        if output.status.success() {
            Ok(Some(String::from_utf8_lossy(&output.stdout).into_owned()))
        } else {
            Err(io::Error::other(everything(script, &output)))
        }
    }

    /// A script that is ready to run, and ends with its handle. Proxies of this machine are kept from it.
    ///
    /// Where the packages are not installed this says so and gives `None`: the test has nothing to do.
    /// With `CORTEX_REQUIRE_ALL=1` it is an error instead.
    pub fn command(self, script: &Path) -> io::Result<Option<Command>> {
        if !self.is_installed() {
            let missing = format!("{} is not there; cargo xtask test installs it", self.folder().display());
            if std::env::var_os(REQUIRE_ALL_VARIABLE).is_some_and(|value| value == "1") {
                return Err(io::Error::new(io::ErrorKind::NotFound, missing));
            }
            writeln!(io::stderr(), "SKIPPED {self:?} clients: {missing}")?;
            return Ok(None);
        }
        let mut command = Command::new(self.program());
        command.arg(script).envs(self.environment()?);
        for proxy in ["http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"] {
            command.env_remove(proxy);
        }
        command.stdin(Stdio::null()).kill_on_drop(true);
        Ok(Some(command))
    }

    fn folder(self) -> PathBuf {
        let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target");
        match self {
            Self::Node => target.join("npm/openai"),
            Self::VercelAi => target.join("npm/ai"),
            Self::Python => target.join("pypi/clients"),
            Self::Litellm => target.join("pypi/litellm"),
            Self::Schemathesis => target.join("pypi/schemathesis"),
        }
    }

    fn is_installed(self) -> bool {
        match self {
            Self::Node => self.folder().join("node_modules/openai/package.json").is_file(),
            Self::VercelAi => self.folder().join("node_modules/ai/package.json").is_file(),
            Self::Python | Self::Litellm | Self::Schemathesis => {
                self.folder().join("installed.txt").is_file()
            }
        }
    }

    fn program(self) -> PathBuf {
        match self {
            // A package may have brought a Node that is newer than the machine's, for itself or for the other.
            Self::Node | Self::VercelAi => {
                let brought = [self, Self::Node, Self::VercelAi]
                    .map(|clients| clients.folder().join("node_modules/.bin/node"));
                brought.into_iter().find(|node| node.is_file()).unwrap_or_else(|| PathBuf::from("node"))
            }
            Self::Python | Self::Litellm | Self::Schemathesis => self.folder().join("bin/python3"),
        }
    }

    /// Node finds packages of a script only above it, so the script is told where they are.
    fn environment(self) -> io::Result<Vec<(&'static str, OsString)>> {
        Ok(match self {
            Self::Node | Self::VercelAi => {
                vec![("CLIENT_MODULES", self.folder().join("node_modules").canonicalize()?.into_os_string())]
            }
            Self::Python | Self::Litellm | Self::Schemathesis => {
                vec![("PYTHONUNBUFFERED", "1".into()), ("PYTHONDONTWRITEBYTECODE", "1".into())]
            }
        })
    }
}

fn everything(script: &Path, output: &Output) -> String {
    format!(
        "{} ended with {}\n{}{}",
        script.display(),
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}
