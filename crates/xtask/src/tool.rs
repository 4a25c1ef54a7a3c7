//! Tools of others that the suites use: found on the machine, or fetched once by their own installer.

use crate::child::Workplace;
use anyhow::Result;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A program, and where it comes from.
#[derive(Clone, Copy)]
pub(crate) struct Tool {
    pub(crate) program: &'static str,
    pub(crate) origin: Origin,
}

#[derive(Clone, Copy)]
pub(crate) enum Origin {
    /// Used where it is; something else does its work where it is not.
    Machine,
    /// A package for apt-get, when we are root.
    Debian(&'static [&'static str]),
    /// A crate, built once into `target/tools`.
    Cargo { package: &'static str, version: &'static str },
    /// Packages for npm, installed once into `target/npm/<program>`.
    Npm { packages: &'static [&'static str], node_major_min: u32 },
    /// Packages for pip, installed once into the virtual environment `target/pypi/<program>`.
    Pypi { packages: &'static [&'static str] },
}

pub(crate) const NEXTEST: Tool = Tool { program: "cargo-nextest", origin: Origin::Machine };

pub(crate) const DENY: Tool =
    Tool { program: "cargo-deny", origin: Origin::Cargo { package: "cargo-deny", version: "0.20.2" } };

/// Records what the server writes and syncs, and lets system calls fail.
pub(crate) const STRACE: Tool = Tool { program: "strace", origin: Origin::Debian(&["strace"]) };

const NPM: Tool = Tool { program: "npm", origin: Origin::Debian(&["nodejs", "npm"]) };

/// Speaks the wires of OpenAI, Anthropic and Google.
pub(crate) const AIMOCK: Tool = Tool {
    program: "aimock",
    origin: Origin::Npm { packages: &["@copilotkit/aimock@1.43.0"], node_major_min: 20 },
};

/// Serves a tool of every kind over MCP.
pub(crate) const MCP_EVERYTHING: Tool = Tool {
    program: "mcp-server-everything",
    origin: Origin::Npm {
        packages: &["@modelcontextprotocol/server-everything@2026.8.31"],
        node_major_min: 20,
    },
};

/// The OpenAI client for Node; a library, without a program of its own.
pub(crate) const OPENAI_NODE: Tool =
    Tool { program: "openai", origin: Origin::Npm { packages: &["openai@7.53.0"], node_major_min: 22 } };

/// Vercel's AI SDK and its providers for OpenAI's API; libraries too.
pub(crate) const VERCEL_AI: Tool = Tool {
    program: "ai",
    origin: Origin::Npm {
        packages: &["ai@7.0.169", "@ai-sdk/openai@4.0.114", "@ai-sdk/openai-compatible@3.0.90"],
        node_major_min: 22,
    },
};

const PYTHON_PACKAGES: &[&str] = &["python3", "python3-venv", "python3-pip"];

const PYTHON: Tool = Tool { program: "python3", origin: Origin::Debian(PYTHON_PACKAGES) };

/// Every client for Python that a suite uses; the name is that of its folder.
pub(crate) const PYTHON_CLIENTS: Tool = Tool {
    program: "clients",
    origin: Origin::Pypi {
        packages: &[
            "openai==3.49.0",
            "langchain-openai==1.7.3",
            "cloudevents==2.2.0",
            "websockets==17.4",
            "standardwebhooks==1.1.0",
        ],
    },
};

/// Apart from the other clients, because it wants other versions of what they share.
pub(crate) const LITELLM: Tool =
    Tool { program: "litellm", origin: Origin::Pypi { packages: &["litellm==1.106.2"] } };

/// Tries a server against its OpenAPI document.
pub(crate) const SCHEMATHESIS: Tool =
    Tool { program: "schemathesis", origin: Origin::Pypi { packages: &["schemathesis==4.32.5"] } };

/// Newer than what Debian has, for packages that ask for it; npm brings it like any other package.
const NODE_PACKAGE: &str = "node@22";

/// Finds and fetches tools, each at most once.
pub(crate) struct Toolbox {
    pub(crate) workplace: Workplace,
    may_install: bool,
    found: BTreeMap<&'static str, Option<PathBuf>>,
}

impl Toolbox {
    pub(crate) fn new(root: &Path, machine_path: &OsString, may_install: bool) -> Result<Self> {
        let packages = [AIMOCK, MCP_EVERYTHING, OPENAI_NODE, VERCEL_AI]
            .map(|tool| npm_folder(root, &tool).join("node_modules/.bin"));
        let ours = std::iter::once(root.join("target/tools/bin")).chain(packages);
        let folders = ours.chain(std::env::split_paths(machine_path));
        let workplace = Workplace { root: root.to_owned(), search_path: std::env::join_paths(folders)? };
        Ok(Self { workplace, may_install, found: BTreeMap::new() })
    }

    /// Whether the tool is there, after an attempt to get it.
    pub(crate) fn has(&mut self, tool: &Tool) -> bool {
        if let Some(known) = self.found.get(tool.program) {
            return known.is_some();
        }
        if self.find(tool).is_none() && self.may_install {
            self.install(tool);
        }
        let path = self.find(tool);
        match &path {
            Some(path) => println!("tool    {:<14} {}", tool.program, path.display()),
            None => println!("tool    {:<14} not found", tool.program),
        }
        let is_there = path.is_some();
        self.found.insert(tool.program, path);
        is_there
    }

    /// The program, if it would start: a package of npm is a script for a Node that may be missing or too old.
    fn find(&self, tool: &Tool) -> Option<PathBuf> {
        match tool.origin {
            Origin::Machine | Origin::Debian(_) | Origin::Cargo { .. } => self.workplace.find(tool.program),
            Origin::Npm { node_major_min, .. } => {
                // Its own folder, because that is where the suites look; a library has no program there.
                let modules = npm_folder(&self.workplace.root, tool).join("node_modules");
                let places = [
                    modules.join(".bin").join(tool.program),
                    modules.join(tool.program).join("package.json"),
                ];
                let found = places.into_iter().find(|place| place.is_file())?;
                (self.node_major() >= node_major_min).then_some(found)
            }
            Origin::Pypi { packages } => {
                let folder = pypi_folder(&self.workplace.root, tool);
                let installed = std::fs::read_to_string(folder.join(PYPI_DONE)).ok()?;
                let python = folder.join("bin/python3");
                (installed == packages.join("\n") && python.is_file()).then_some(python)
            }
        }
    }

    /// An installer that fails leaves its log; the suite that needs the tool is then skipped and says so.
    fn install(&mut self, tool: &Tool) {
        match tool.origin {
            Origin::Machine => {}
            Origin::Debian(packages) => self.install_debian(packages),
            Origin::Cargo { package, version } => {
                let folder = self.workplace.root.join("target/tools");
                let folder = folder.to_string_lossy();
                self.attempt(
                    package,
                    &["cargo", "install", package, "--version", version, "--locked", "--root", &folder],
                );
            }
            Origin::Npm { packages, node_major_min } => {
                if self.has(&NPM) {
                    let folder = npm_folder(&self.workplace.root, tool);
                    let folder = folder.to_string_lossy();
                    let mut command = vec!["npm", "install", "--no-fund", "--no-audit", "--prefix", &folder];
                    command.extend(packages);
                    if self.node_major() < node_major_min {
                        command.push(NODE_PACKAGE);
                    }
                    self.attempt(tool.program, &command);
                }
            }
            Origin::Pypi { packages } => {
                if self.has(&PYTHON) {
                    self.install_pypi(&pypi_folder(&self.workplace.root, tool), packages);
                }
            }
        }
    }

    fn install_pypi(&self, folder: &Path, packages: &[&str]) {
        let python = folder.join("bin/python3");
        let (environment, python) = (folder.to_string_lossy(), python.to_string_lossy());
        let mut command = vec![&*python, "-m", "pip", "install", "--disable-pip-version-check"];
        command.extend(packages);
        let prepare = || self.attempt("python venv", &["python3", "-m", "venv", &environment]);
        // Debian's Python may be there without what makes an environment.
        let is_prepared = prepare() || {
            self.install_debian(PYTHON_PACKAGES);
            prepare()
        };
        let is_done = is_prepared && self.attempt("python clients", &command);
        // Last, so that half an installation is never taken for a whole one.
        if is_done && let Err(error) = std::fs::write(folder.join(PYPI_DONE), packages.join("\n")) {
            println!("        python clients failed; {error}");
        }
    }

    fn install_debian(&self, packages: &[&str]) {
        let is_root = std::fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0);
        if !is_root || self.workplace.find("apt-get").is_none() {
            return;
        }
        let mut command = vec!["apt-get", "install", "--yes", "--no-install-recommends"];
        command.extend(packages);
        // A fresh machine has no package lists yet; a machine that has them needs no update.
        if !self.attempt(packages[0], &command) && self.attempt("apt-get update", &["apt-get", "update"]) {
            self.attempt(packages[0], &command);
        }
    }

    fn attempt(&self, name: &str, command: &[&str]) -> bool {
        println!("install {name:<14} {}", command.join(" "));
        let ended = self.workplace.run(&format!("install {name}"), command);
        match &ended {
            Ok(ended) if !ended.success => println!("        {name:<14} failed; see {}", ended.log.display()),
            Ok(_) => {}
            Err(error) => println!("        {name:<14} failed; {error:#}"),
        }
        ended.is_ok_and(|ended| ended.success)
    }

    /// 0 when there is no Node.
    fn node_major(&self) -> u32 {
        let node =
            self.workplace.find("node").and_then(|node| Command::new(node).arg("--version").output().ok());
        let version =
            node.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
        let major = version.trim_start_matches('v').split('.').next().unwrap_or_default();
        major.parse().unwrap_or_default()
    }
}

/// Holds what was installed: other versions are installed anew.
const PYPI_DONE: &str = "installed.txt";

fn pypi_folder(root: &Path, tool: &Tool) -> PathBuf {
    root.join("target/pypi").join(tool.program)
}

fn npm_folder(root: &Path, tool: &Tool) -> PathBuf {
    root.join("target/npm").join(tool.program)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_is_missing_where_nothing_may_be_installed() {
        let root = tempfile::tempdir().unwrap();
        let mut toolbox = Toolbox::new(root.path(), &OsString::new(), false).unwrap();
        assert!(!toolbox.has(&AIMOCK));
        assert!(!root.path().join("target").exists(), "a lookup leaves nothing behind");
    }

    fn with_program(folder: &str, program: &str) -> (tempfile::TempDir, Toolbox) {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join(folder);
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join(program), "").unwrap();
        let toolbox = Toolbox::new(root.path(), &OsString::new(), false).unwrap();
        (root, toolbox)
    }

    #[test]
    fn a_tool_that_was_installed_once_is_found_again() {
        let (_root, mut toolbox) = with_program("target/tools/bin", "cargo-deny");
        assert!(toolbox.has(&DENY));
    }

    #[test]
    fn packages_of_pypi_are_found_again_in_their_versions_only() {
        let (root, mut toolbox) = with_program("target/pypi/clients/bin", "python3");
        assert!(!toolbox.has(&PYTHON_CLIENTS), "an installation that was cut short");
        for (installed, expected) in [
            ("openai==1.0.0", false),
            (
                "openai==3.49.0\nlangchain-openai==1.7.3\ncloudevents==2.2.0\nwebsockets==17.4\nstandardwebhooks==1.1.0",
                true,
            ),
        ] {
            std::fs::write(root.path().join("target/pypi/clients").join(PYPI_DONE), installed).unwrap();
            let mut toolbox = Toolbox::new(root.path(), &OsString::new(), false).unwrap();
            assert_eq!(toolbox.has(&PYTHON_CLIENTS), expected, "{installed}");
        }
    }

    #[test]
    fn a_package_of_npm_is_missing_without_its_node() {
        let (_root, mut toolbox) = with_program("target/npm/aimock/node_modules/.bin", "aimock");
        assert!(!toolbox.has(&AIMOCK));
    }
}
