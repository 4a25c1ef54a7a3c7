//! What is wrong with a skill, as data: the file, the place in it, and what to do.

use std::fmt;
use std::path::{Path, PathBuf};

/// Whether a finding stops the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    Error,
    Warning,
}

/// A place in a text file; both count from 1, the column in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    pub line: usize,
    pub column: usize,
}

/// One thing that is wrong with a skill, ready to be shown to its author.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkillProblem {
    pub severity: Severity,
    pub path: PathBuf,
    pub place: Option<Place>,
    pub message: String,
    /// What to do about it.
    pub help: String,
}

impl SkillProblem {
    pub(crate) fn error(path: &Path, message: impl Into<String>, help: impl Into<String>) -> Self {
        Self {
            severity: Severity::Error,
            path: path.to_owned(),
            place: None,
            message: message.into(),
            help: help.into(),
        }
    }

    pub(crate) fn warning(path: &Path, message: impl Into<String>, help: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, ..Self::error(path, message, help) }
    }

    pub(crate) fn at(self, place: Option<Place>) -> Self {
        Self { place, ..self }
    }
}

impl Place {
    /// The place of a byte of `text`.
    pub(crate) fn of_offset(text: &str, offset: usize) -> Self {
        let before = text.get(..offset).unwrap_or(text);
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        Self { line: before.matches('\n').count() + 1, column: before[line_start..].chars().count() + 1 }
    }

    /// Where `text` first holds `wanted` as a quoted word, or else at all.
    pub(crate) fn of_word(text: &str, wanted: &str) -> Option<Self> {
        let quoted =
            ['"', '\'', '`'].into_iter().find_map(|quote| text.find(&format!("{quote}{wanted}{quote}")));
        quoted
            .map(|offset| offset + 1)
            .or_else(|| text.find(wanted))
            .map(|offset| Self::of_offset(text, offset))
    }
}

/// `path:line:column: message; help`, the form editors jump to.
impl fmt::Display for SkillProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.path.display())?;
        if let Some(Place { line, column }) = self.place {
            write!(f, ":{line}:{column}")?;
        }
        write!(f, ": {}; {}", self.message, self.help)
    }
}

impl std::error::Error for SkillProblem {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_counts_lines_and_characters_from_one() {
        let text = "a\nbä\"wort\"";
        assert_eq!(Place::of_offset(text, 0), Place { line: 1, column: 1 });
        assert_eq!(Place::of_word(text, "wort"), Some(Place { line: 2, column: 4 }));
        assert_eq!(Place::of_word(text, "missing"), None);
    }

    #[test]
    fn a_problem_reads_as_file_line_column_message_and_help() {
        let problem = SkillProblem::error(Path::new("a/main.ts"), "unexpected token", "mend the syntax")
            .at(Some(Place { line: 3, column: 7 }));
        assert_eq!(problem.to_string(), "a/main.ts:3:7: unexpected token; mend the syntax");
    }
}
