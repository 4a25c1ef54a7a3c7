//! Field checks that collect every complaint, in the words connectors rely on (D1).

use crate::refusal::Refusal;
use cortex_types::limits::FIELD_CHARS_MAX;
use serde_json::{Map, Value};

/// Reads fields of a request body; `finish` refuses when any of them was bad.
pub(crate) struct Fields<'a> {
    object: &'a Map<String, Value>,
    complaints: Vec<String>,
}

impl<'a> Fields<'a> {
    pub(crate) fn of(object: &'a Map<String, Value>) -> Self {
        Self { object, complaints: Vec::new() }
    }

    /// A field that may be absent; `null` counts as absent.
    pub(crate) fn optional(&self, name: &str) -> Option<&'a Value> {
        self.object.get(name).filter(|value| !value.is_null())
    }

    /// A required text of any length.
    pub(crate) fn text(&mut self, name: &str) -> String {
        let Some(value) = self.optional(name) else {
            self.complain(format!("{name} is required"));
            return String::new();
        };
        match value.as_str() {
            Some(text) if text.trim().is_empty() => {
                self.complain(format!("{name} must be a non-empty string"))
            }
            Some(text) if text.contains('\0') => {
                self.complain(format!("{name} must not contain NUL characters"));
            }
            Some(text) => return text.to_owned(),
            None => self.complain(format!("{name} must be a non-empty string")),
        }
        String::new()
    }

    /// A required name or id.
    pub(crate) fn name(&mut self, name: &str) -> String {
        let text = self.text(name);
        if text.chars().count() > FIELD_CHARS_MAX {
            self.complain(format!("{name} must be at most {FIELD_CHARS_MAX} characters"));
        }
        text
    }

    /// An optional whole number within bounds.
    pub(crate) fn number(&mut self, name: &str, least: u32, most: u32) -> Option<u32> {
        let value = self.optional(name)?;
        let number = value.as_u64().and_then(|number| u32::try_from(number).ok());
        let number = number.filter(|number| (least..=most).contains(number));
        if number.is_none() {
            self.complain(format!("{name} must be between {least} and {most}"));
        }
        number
    }

    /// An optional truth value; absent is false.
    pub(crate) fn flag(&mut self, name: &str) -> bool {
        let Some(value) = self.optional(name) else { return false };
        value.as_bool().unwrap_or_else(|| {
            self.complain(format!("{name} must be true or false"));
            false
        })
    }

    pub(crate) fn complain(&mut self, complaint: String) {
        self.complaints.push(complaint);
    }

    /// Everything that was wrong so far.
    pub(crate) fn complaints(self) -> Vec<String> {
        self.complaints
    }

    pub(crate) fn finish(self) -> Result<(), Refusal> {
        if self.complaints.is_empty() { Ok(()) } else { Err(Refusal::invalid(self.complaints)) }
    }
}
