//! `mcpServers` of server.json, in the shape every MCP client uses.

use crate::child::ServerLimits;
use crate::tool::is_own_skill;
use cortex_types::limits::{MCP_MEMORY_MIB, MCP_MEMORY_MIB_DEFAULT, MCP_PROCESSES, MCP_PROCESSES_DEFAULT};
use cortex_types::without_known;
use http::{HeaderName, HeaderValue};
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use url::Url;

/// Leaves room for the tool in a name of at most 63 characters.
const SERVER_NAME_CHARS_MAX: usize = 32;
const SERVERS_MAX: usize = 64;

/// The servers to connect to, by name. Disabled ones are not in it.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(try_from = "BTreeMap<String, Entry>")]
pub struct McpServers(pub(super) BTreeMap<String, McpServer>);

/// How one server is reached. Values of `env` and `headers` may be secrets and are never shown.
#[derive(Debug, Clone)]
pub enum McpServer {
    Stdio {
        command: String,
        args: Vec<String>,
        env: BTreeMap<String, SecretString>,
        cwd: Option<PathBuf>,
        unconfined: bool,
        limits: ServerLimits,
    },
    Http {
        url: Url,
        headers: Vec<(HeaderName, SecretString)>,
    },
}

/// What is wrong with an entry of `mcpServers`, and how to put it right.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("mcpServers.{server}: {problem}")]
pub struct McpServersError {
    server: String,
    problem: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Entry {
    #[serde(rename = "type")]
    kind: Option<Kind>,
    command: Option<String>,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    env: BTreeMap<String, SecretString>,
    cwd: Option<PathBuf>,
    url: Option<String>,
    #[serde(default)]
    headers: BTreeMap<String, SecretString>,
    /// Whether it may also use the folders that are closed to other servers.
    #[serde(default)]
    unconfined: bool,
    /// What each of its processes may take; 0 is no limit.
    #[serde(rename = "memoryMiB")]
    memory_mib: Option<u64>,
    /// Processes and threads that it may start; 0 is no limit.
    max_processes: Option<u64>,
    #[serde(default)]
    disabled: bool,
    /// Other clients' lists of tools that need no consent. Taken, so that a block can be copied, and not followed.
    #[serde(rename = "autoApprove", alias = "alwaysAllow")]
    _without_consent: Option<IgnoredAny>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
enum Kind {
    #[serde(rename = "stdio")]
    Stdio,
    #[serde(rename = "http", alias = "streamable-http", alias = "streamableHttp")]
    Http,
    #[serde(rename = "sse")]
    Sse,
}

impl McpServers {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// The servers that may use folders that are closed to others.
    pub fn unconfined(&self) -> impl Iterator<Item = &str> {
        let is_open = |server: &McpServer| matches!(server, McpServer::Stdio { unconfined: true, .. });
        self.0.iter().filter(move |(_, server)| is_open(server)).map(|(name, _)| name.as_str())
    }

    /// Every value of `env` and `headers`: what a log must not show.
    pub fn secrets(&self) -> impl Iterator<Item = &SecretString> {
        self.0.values().flat_map(McpServer::secrets)
    }
}

impl McpServer {
    /// What the server said, without the secrets it was given.
    pub(super) fn without_secrets(&self, said: &str) -> String {
        without_known(said, self.secrets().into_iter().map(|secret| secret.expose_secret()))
    }

    fn secrets(&self) -> Vec<&SecretString> {
        match self {
            Self::Stdio { env, .. } => env.values().collect(),
            Self::Http { headers, .. } => headers.iter().map(|(_, value)| value).collect(),
        }
    }
}

impl TryFrom<BTreeMap<String, Entry>> for McpServers {
    type Error = McpServersError;

    fn try_from(entries: BTreeMap<String, Entry>) -> Result<Self, McpServersError> {
        let mut servers = BTreeMap::new();
        let mut parts: BTreeMap<String, String> = BTreeMap::new();
        for (name, entry) in entries {
            let wrong =
                |problem: String| McpServersError { server: name.chars().take(100).collect(), problem };
            if entry.disabled {
                continue;
            }
            if servers.len() == SERVERS_MAX {
                return Err(wrong(format!("there are more than {SERVERS_MAX} servers")));
            }
            let part = name_part(&name);
            if part.is_empty() || part.len() > SERVER_NAME_CHARS_MAX {
                return Err(wrong(format!("a name has 1 to {SERVER_NAME_CHARS_MAX} characters")));
            }
            if is_own_skill(&part) {
                let example = format!("my-{part}");
                return Err(wrong(format!(
                    "Cortex has tools of its own called {part}.…; use another name, such as {example:?}"
                )));
            }
            if let Some(other) = parts.insert(part.to_ascii_lowercase(), name.clone()) {
                return Err(wrong(format!(
                    "its tools would be called {part}.…, as those of {other:?}; rename one"
                )));
            }
            let server = entry.server().map_err(wrong)?;
            servers.insert(name, server);
        }
        Ok(Self(servers))
    }
}

impl Entry {
    fn server(self) -> Result<McpServer, String> {
        let fits = |kind: Kind| self.kind.is_none_or(|given| given == kind);
        match (&self.command, &self.url) {
            _ if self.kind == Some(Kind::Sse) => Err(
                "the old SSE transport is not spoken; give the server's Streamable HTTP url with type http"
                    .into(),
            ),
            (Some(command), None) if fits(Kind::Stdio) => {
                if command.is_empty() {
                    return Err("command is empty".to_owned());
                }
                if let Some(name) = self.env.keys().find(|name| name.is_empty() || name.contains(['=', '\0']))
                {
                    return Err(format!("env: {name:?} is not a variable name"));
                }
                let limits = ServerLimits {
                    memory_mib: limit("memoryMiB", self.memory_mib, MCP_MEMORY_MIB_DEFAULT, &MCP_MEMORY_MIB)?,
                    processes: limit(
                        "maxProcesses",
                        self.max_processes,
                        MCP_PROCESSES_DEFAULT,
                        &MCP_PROCESSES,
                    )?,
                };
                let command = command.clone();
                Ok(McpServer::Stdio {
                    command,
                    args: self.args,
                    env: self.env,
                    cwd: self.cwd,
                    unconfined: self.unconfined,
                    limits,
                })
            }
            (None, Some(url)) if fits(Kind::Http) => {
                Ok(McpServer::Http { url: http_url(url)?, headers: http_headers(self.headers)? })
            }
            (Some(_), Some(_)) => Err("give command or url, not both".to_owned()),
            (None, None) => Err("give command (and args, env) or url (and headers)".to_owned()),
            (Some(_), None) | (None, Some(_)) => {
                Err("type does not fit: stdio has command, http has url".to_owned())
            }
        }
    }
}

/// A limit of an entry; one that is not named has its default, and 0 is none.
fn limit(
    name: &str,
    given: Option<u64>,
    default: u64,
    bounds: &RangeInclusive<u64>,
) -> Result<Option<u64>, String> {
    match given {
        None => Ok(Some(default)),
        Some(0) => Ok(None),
        Some(given) if bounds.contains(&given) => Ok(Some(given)),
        Some(_) => Err(format!(
            "{name}: give {} to {}, or 0 for no limit; the default is {default}",
            bounds.start(),
            bounds.end()
        )),
    }
}

/// The name as it can stand in a tool's name.
pub(crate) fn name_part(name: &str) -> String {
    let fits = |letter: char| letter.is_ascii_alphanumeric() || "_-".contains(letter);
    name.chars().map(|letter| if fits(letter) { letter } else { '_' }).collect()
}

fn http_url(text: &str) -> Result<Url, String> {
    let url = Url::parse(text).map_err(|error| format!("url: {error}"))?;
    let is_web = matches!(url.scheme(), "http" | "https") && url.has_host();
    if !is_web {
        return Err("url: only http and https are spoken".to_owned());
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("url: put credentials into headers".to_owned());
    }
    Ok(url)
}

fn http_headers(given: BTreeMap<String, SecretString>) -> Result<Vec<(HeaderName, SecretString)>, String> {
    let mut headers = Vec::new();
    for (name, value) in given {
        let header =
            HeaderName::from_bytes(name.as_bytes()).map_err(|_| format!("headers: {name:?} is no name"))?;
        if HeaderValue::from_str(value.expose_secret()).is_err() {
            return Err(format!("headers: the value of {name:?} cannot be sent"));
        }
        headers.push((header, value));
    }
    Ok(headers)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<McpServers, String> {
        serde_json::from_str(text).map_err(|error| error.to_string())
    }

    #[test]
    fn a_block_copied_from_another_client_is_understood() {
        let servers = parse(
            r#"{"files": {"command": "npx", "args": ["-y", "server-files"], "env": {"KEY": "s3cret"}, "cwd": "/tmp"},
                "local": {"type": "stdio", "command": "x", "autoApprove": ["rm"], "disabled": false},
                "old": {"command": "x", "disabled": true},
                "web": {"type": "http", "url": "https://mcp.example.org/mcp", "headers": {"Authorization": "Bearer s3cret"}},
                "web2": {"type": "streamable-http", "url": "http://127.0.0.1:3001/mcp"}}"#,
        )
        .unwrap();
        assert_eq!(servers.names().collect::<Vec<_>>(), ["files", "local", "web", "web2"]);
        assert!(!format!("{servers:?}").contains("s3cret"), "secrets show in {servers:?}");
        let secrets: Vec<&str> = servers.secrets().map(ExposeSecret::expose_secret).collect();
        assert_eq!(secrets, ["s3cret", "Bearer s3cret"]);
    }

    #[test]
    fn limits_have_defaults_and_can_be_taken_away() {
        let limits =
            |entry: &str| match parse(&format!(r#"{{"a": {entry}}}"#)).unwrap().0.remove("a").unwrap() {
                McpServer::Stdio { limits, .. } => (limits.memory_mib, limits.processes),
                McpServer::Http { .. } => unreachable!(),
            };
        assert_eq!(limits(r#"{"command": "x"}"#), (Some(4_096), Some(512)));
        assert_eq!(limits(r#"{"command": "x", "memoryMiB": 128, "maxProcesses": 8}"#), (Some(128), Some(8)));
        assert_eq!(limits(r#"{"command": "x", "memoryMiB": 0, "maxProcesses": 0}"#), (None, None));
    }

    #[test]
    fn a_wrong_entry_names_the_server_and_the_fix() {
        for (entry, part) in [
            (r#"{"a": {}}"#, "mcpServers.a: give command"),
            (r#"{"a": {"command": "x", "url": "http://h/"}}"#, "not both"),
            (r#"{"a": {"command": "x", "type": "http"}}"#, "type does not fit"),
            (r#"{"a": {"url": "http://h/", "type": "sse"}}"#, "Streamable HTTP"),
            (r#"{"a": {"url": "file:///x"}}"#, "only http and https"),
            (r#"{"a": {"url": "http://u:p@h/"}}"#, "headers"),
            (r#"{"a": {"url": "http://h/", "headers": {"a b": "1"}}}"#, "no name"),
            (r#"{"a": {"url": "http://h/", "headers": {"a": "1\n2"}}}"#, "cannot be sent"),
            (r#"{"a": {"command": "x", "env": {"A=B": "1"}}}"#, "variable name"),
            (r#"{"a": {"comand": "x"}}"#, "unknown field `comand`"),
            (r#"{"a.b": {"command": "x"}, "a b": {"command": "x"}}"#, "rename one"),
            (r#"{"": {"command": "x"}}"#, "1 to 32"),
            (r#"{"Memory": {"command": "x"}}"#, "tools of its own called Memory"),
            (r#"{"time": {"command": "x"}}"#, "such as \"my-time\""),
            (r#"{"session ": {"command": "x"}}"#, "tools of its own"),
            (
                r#"{"a": {"command": "x", "memoryMiB": 7}}"#,
                "memoryMiB: give 64 to 1048576, or 0 for no limit",
            ),
            (r#"{"a": {"command": "x", "maxProcesses": 100001}}"#, "maxProcesses: give 1 to 100000"),
        ] {
            let error = parse(entry).unwrap_err();
            assert!(error.contains(part), "{entry}: {error}");
        }
    }
}
