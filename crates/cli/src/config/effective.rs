//! The values in force, and where each came from: flag over variable over file over default.

use super::diagnostic::{ConfigError, Origin};
use super::file;
use super::table::{KEYS, Key};
use crate::environment::Environment;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The flags that set a key, as they were typed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Flags {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) host: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) port: Option<String>,
}

impl Flags {
    pub(crate) fn is_empty(&self) -> bool {
        self.host.is_none() && self.port.is_none()
    }

    /// These flags, and the others where these say nothing.
    pub(crate) fn or(self, others: Self) -> Self {
        Self { host: self.host.or(others.host), port: self.port.or(others.port) }
    }

    fn get(&self, key: &str) -> Option<&str> {
        match key {
            "host" => self.host.as_deref(),
            "port" => self.port.as_deref(),
            _ => None,
        }
    }
}

/// Where a value came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    Flag,
    Env,
    File,
    Default,
}

impl Source {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Flag => "flag",
            Self::Env => "env",
            Self::File => "file",
            Self::Default => "default",
        }
    }
}

/// One key with its value in force.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) key: &'static Key,
    pub(crate) value: Value,
    pub(crate) source: Source,
}

/// Every key of the table, in its order.
#[derive(Debug)]
pub(crate) struct Effective {
    pub(crate) entries: Vec<Entry>,
    pub(crate) file: PathBuf,
}

/// Reads and checks everything; all that is wrong is told at once.
pub(crate) fn load(home: &Path, flags: &Flags, environment: &Environment) -> Result<Effective, ConfigError> {
    let file = home.join("server.json");
    let (in_file, wrong) = file::read(&file, environment)?;
    merged(file, in_file, wrong, flags, environment)
}

/// What the server handed to a child of its own: a few variables. The file names others that the child does not have.
pub(crate) fn load_handed(home: &Path, environment: &Environment) -> Result<Effective, ConfigError> {
    merged(home.join("server.json"), BTreeMap::new(), Vec::new(), &Flags::default(), environment)
}

fn merged(
    file: PathBuf,
    mut in_file: BTreeMap<&'static str, Value>,
    mut wrong: Vec<ConfigError>,
    flags: &Flags,
    environment: &Environment,
) -> Result<Effective, ConfigError> {
    let mut entries = Vec::with_capacity(KEYS.len());
    for key in KEYS {
        let variable = key.variable();
        let read = if let Some(text) = flags.get(key.name) {
            check_text(key, Origin::Flag(format!("--{}", key.name)), text).map(|value| (value, Source::Flag))
        } else if let Some(text) = environment.get(&variable).filter(|text| !text.is_empty()) {
            check_text(key, Origin::Variable(variable), text).map(|value| (value, Source::Env))
        } else if let Some(value) = in_file.remove(key.name) {
            Ok((value, Source::File))
        } else {
            Ok((key.default_value(), Source::Default))
        };
        match read {
            Ok((value, source)) => entries.push(Entry { key, value, source }),
            Err(error) => wrong.push(error),
        }
    }
    match ConfigError::all(wrong) {
        Some(error) => Err(error),
        None => Ok(Effective { entries, file }),
    }
}

impl Effective {
    pub(crate) fn source(&self, name: &str) -> Source {
        self.entry(name).map_or(Source::Default, |entry| entry.source)
    }

    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.entry(name).and_then(|entry| entry.value.as_str())
    }

    pub(crate) fn flag(&self, name: &str) -> bool {
        self.entry(name).and_then(|entry| entry.value.as_bool()).unwrap_or(false)
    }

    /// What a connector gets of the settings, in the variables that `load_handed` reads: its own block, and how much to log.
    pub(crate) fn handed_to(&self, connector: &str) -> Vec<(String, String)> {
        let block = self.entry("connectors").and_then(|entry| entry.value.get(connector)).cloned();
        let own = json!({ connector: block.unwrap_or_else(|| json!({})) }).to_string();
        let level = self.text("logLevel").unwrap_or_default().to_owned();
        let variable = |name: &str| Key::find(name).map(Key::variable).unwrap_or_default();
        vec![(variable("connectors"), own), (variable("logLevel"), level)]
    }

    /// Where to point a complaint about this key.
    pub(crate) fn origin(&self, name: &str) -> Origin {
        match self.source(name) {
            Source::Flag => Origin::Flag(format!("--{name}")),
            Source::Env => Origin::Variable(Key::find(name).map(Key::variable).unwrap_or_default()),
            Source::File | Source::Default => Origin::File(self.file.clone()),
        }
    }

    fn entry(&self, name: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.key.name == name)
    }
}

fn check_text(key: &Key, origin: Origin, text: &str) -> Result<Value, ConfigError> {
    key.kind.check_text(text).map_err(|problem| {
        let help = match origin {
            Origin::Variable(_) => format!("set it to {}, or unset it", key.kind.expected()),
            Origin::Flag(_) | Origin::File(_) => format!("give {}", key.kind.expected()),
        };
        ConfigError::setting(origin, format!("{} {problem}", key.name), &help)
    })
}
