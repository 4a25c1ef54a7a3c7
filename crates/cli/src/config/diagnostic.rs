//! The one complaint about the configuration: where, which key, what is wrong, and what to do.

use miette::{Diagnostic, GraphicalReportHandler, GraphicalTheme, LabeledSpan, NamedSource, SourceCode};
use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Where a bad value stands.
#[derive(Debug, Clone)]
pub(crate) enum Origin {
    File(PathBuf),
    Variable(String),
    Flag(String),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Variable(name) | Self::Flag(name) => f.write_str(name),
        }
    }
}

/// A configuration that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{message}{}", others.iter().map(|other| format!("; {other}")).collect::<String>())]
pub(crate) struct ConfigError {
    message: String,
    help: String,
    excerpt: Option<Box<Excerpt>>,
    /// What else is wrong.
    others: Vec<ConfigError>,
}

#[derive(Debug)]
struct Excerpt {
    text: NamedSource<String>,
    range: Range<usize>,
}

impl ConfigError {
    /// Several complaints as one; `None` when there is none.
    pub(crate) fn all(errors: Vec<Self>) -> Option<Self> {
        let mut errors = errors.into_iter();
        let first = errors.next()?;
        Some(Self { others: errors.collect(), ..first })
    }

    /// A complaint that has no line: a variable, a flag, or a rule over several keys.
    pub(crate) fn setting(origin: Origin, problem: String, help: &str) -> Self {
        Self {
            message: format!("{origin}: {problem}"),
            help: help.to_owned(),
            excerpt: None,
            others: Vec::new(),
        }
    }

    /// A complaint about a place in the file. `text` is what may be shown of it: the same length, secrets masked.
    pub(crate) fn in_file(path: &Path, text: &str, range: Range<usize>, problem: &str, help: &str) -> Self {
        let line = text[..range.start.min(text.len())].matches('\n').count() + 1;
        let name = path.display().to_string();
        Self {
            message: format!("{name}:{line}: {problem}"),
            help: help.to_owned(),
            excerpt: Some(Box::new(Excerpt { text: NamedSource::new(name, text.to_owned()), range })),
            others: Vec::new(),
        }
    }

    /// Every complaint with its place, one below the other.
    pub(crate) fn render(&self, coloured: bool) -> String {
        let all = std::iter::once(self).chain(&self.others);
        all.map(|error| error.render_one(coloured)).collect::<Vec<_>>().join("\n")
    }

    fn render_one(&self, coloured: bool) -> String {
        let theme = if coloured { GraphicalTheme::unicode() } else { GraphicalTheme::unicode_nocolor() };
        // Paths stay in one piece, so that they can be copied and clicked.
        let handler = GraphicalReportHandler::new_themed(theme).with_links(false).with_wrap_lines(false);
        let mut text = String::new();
        match handler.render_report(&mut text, self) {
            Ok(()) => text,
            Err(_) => format!("{}\nhelp: {}\n", self.message, self.help),
        }
    }
}

impl Diagnostic for ConfigError {
    fn code<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        Some(Box::new("config"))
    }

    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        Some(Box::new(&self.help))
    }

    fn source_code(&self) -> Option<&dyn SourceCode> {
        self.excerpt.as_ref().map(|excerpt| &excerpt.text as &dyn SourceCode)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        let excerpt = self.excerpt.as_ref()?;
        let label = LabeledSpan::new_with_span(Some("here".to_owned()), excerpt.range.clone());
        Some(Box::new(std::iter::once(label)))
    }
}
