//! Reads a block of the settings by hand, so that a complaint names the field and never repeats a value.

use serde_json::{Map, Value};

/// An object whose fields are all known.
pub(crate) struct SettingBlock<'a> {
    at: String,
    fields: &'a Map<String, Value>,
}

impl<'a> SettingBlock<'a> {
    /// `at` is how complaints name it; nothing but `known` may stand in it.
    pub(crate) fn open(at: &str, value: &'a Value, known: &[&str]) -> Result<Self, String> {
        let fields = value.as_object().ok_or_else(|| format!("{at} must be an object"))?;
        if let Some(unknown) = fields.keys().find(|name| !known.contains(&name.as_str())) {
            return Err(format!("{at} has an unknown {unknown:?}; it may have {}", known.join(", ")));
        }
        Ok(Self { at: at.to_owned(), fields })
    }

    /// A field that is there.
    pub(crate) fn get(&self, name: &str) -> Option<&'a Value> {
        self.fields.get(name).filter(|value| !value.is_null())
    }

    /// The name of a field in a complaint.
    pub(crate) fn name_of(&self, name: &str) -> String {
        format!("{}.{name}", self.at)
    }

    pub(crate) fn text(&self, name: &str) -> Result<Option<&'a str>, String> {
        let Some(value) = self.get(name) else { return Ok(None) };
        let text = value.as_str().filter(|text| !text.trim().is_empty());
        text.map(Some).ok_or_else(|| format!("{} must be a non-empty string", self.name_of(name)))
    }

    pub(crate) fn required(&self, name: &str) -> Result<&'a str, String> {
        self.text(name)?.ok_or_else(|| format!("{} is required", self.name_of(name)))
    }

    /// A text that `read` makes something of; its complaint goes behind the field's name.
    pub(crate) fn parsed<T>(
        &self,
        name: &str,
        read: impl Fn(&str) -> Result<T, String>,
    ) -> Result<Option<T>, String> {
        let Some(text) = self.text(name)? else { return Ok(None) };
        read(text).map(Some).map_err(|problem| format!("{} {problem}", self.name_of(name)))
    }
}

/// A name that stands in a path, in a source and in a log.
pub(crate) fn check_name(name: &str) -> Result<(), String> {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    if (1..=64).contains(&name.len()) && name.chars().all(is_plain) {
        Ok(())
    } else {
        Err(format!("{name:?} must be 1 to 64 letters, digits, '-', '_' or '.'"))
    }
}
