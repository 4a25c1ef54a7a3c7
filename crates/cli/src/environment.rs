//! The process's environment, read once in `main` and handed on.

use std::collections::BTreeMap;

/// Variables by name. A value that is not UTF-8 is kept with its bad bytes replaced.
#[derive(Debug, Clone, Default)]
pub(crate) struct Environment(BTreeMap<String, String>);

impl Environment {
    pub(crate) fn from_process() -> Self {
        let text = |os: std::ffi::OsString| os.to_string_lossy().into_owned();
        Self(std::env::vars_os().map(|(name, value)| (text(name), text(value))).collect())
    }

    #[cfg(test)]
    pub(crate) fn from_pairs<const N: usize>(pairs: [(&str, &str); N]) -> Self {
        Self(pairs.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
    }

    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// As `get`; an empty value counts as unset.
    pub(crate) fn get_filled(&self, name: &str) -> Option<&str> {
        self.get(name).filter(|value| !value.is_empty())
    }

    pub(crate) fn pairs(&self) -> BTreeMap<String, String> {
        self.0.clone()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }
}
