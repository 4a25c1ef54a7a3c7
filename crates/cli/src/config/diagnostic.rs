//! The one complaint about the configuration: where, which key, what is wrong, and what to do.

use crate::escape::{for_log, for_terminal};
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
            message: for_log(&format!("{origin}: {problem}")).into_owned(),
            help: for_log(help).into_owned(),
            excerpt: None,
            others: Vec::new(),
        }
    }

    /// A complaint about a place in the file. `text` is what may be shown of it: the same length, secrets masked.
    pub(crate) fn in_file(path: &Path, text: &str, range: Range<usize>, problem: &str, help: &str) -> Self {
        let line = text[..range.start.min(text.len())].matches('\n').count() + 1;
        let name = for_log(&path.display().to_string()).into_owned();
        let (text, range) = shown_safely(text, range);
        Self {
            message: for_log(&format!("{name}:{line}: {problem}")).into_owned(),
            help: for_log(help).into_owned(),
            excerpt: Some(Box::new(Excerpt { text: NamedSource::new(name, text), range })),
            others: Vec::new(),
        }
    }

    /// What is wrong, each by itself, without its place in the text.
    pub(crate) fn messages(&self) -> Vec<&str> {
        std::iter::once(self).chain(&self.others).map(|error| error.message.as_str()).collect()
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
        match handler.render_report(&mut text, &Alone(self)) {
            Ok(()) => text,
            Err(_) => format!("{}\nhelp: {}\n", self.message, self.help),
        }
    }
}

/// A file may hold anything. What would act on a terminal is spelled out, and the place moves with it.
fn shown_safely(text: &str, range: Range<usize>) -> (String, Range<usize>) {
    // Line ends of Windows are nothing to look at; the length stays.
    let text = text.replace("\r\n", " \n");
    let start = text.floor_char_boundary(range.start);
    let end = text.ceil_char_boundary(range.end.max(start));
    let [before, inside, after] = [&text[..start], &text[start..end], &text[end..]].map(for_terminal);
    let range = before.len()..before.len() + inside.len();
    (format!("{before}{inside}{after}"), range)
}

/// One complaint without the others, which are drawn below it.
struct Alone<'a>(&'a ConfigError);

impl fmt::Display for Alone<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl fmt::Debug for Alone<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.0, f)
    }
}

impl std::error::Error for Alone<'_> {}

impl Diagnostic for Alone<'_> {
    fn code<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        Some(Box::new("config"))
    }

    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        Some(Box::new(&self.0.help))
    }

    fn source_code(&self) -> Option<&dyn SourceCode> {
        self.0.excerpt.as_ref().map(|excerpt| &excerpt.text as &dyn SourceCode)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        let excerpt = self.0.excerpt.as_ref()?;
        let label = LabeledSpan::new_with_span(Some("here".to_owned()), excerpt.range.clone());
        Some(Box::new(std::iter::once(label)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_a_file_acts_on_a_terminal() {
        let text = "{\r\n \"\u{1b}]52;c;aGk=\u{7}\": \"\u{202e}x\",\r\n}";
        let start = text.find("\"\u{202e}").unwrap();
        let name = Path::new("/a\u{1b}[2J/server.json");
        let problem = "k\n  help: run this \u{1b}[31m";
        let error = ConfigError::in_file(name, text, start..start + 6, problem, "h\u{9b}");
        let variable =
            ConfigError::setting(Origin::Variable("CORTEX_X\u{1b}".to_owned()), "is\nbad".to_owned(), "");
        let drawn = ConfigError::all(vec![error, variable]).unwrap().render(false);
        assert!(!drawn.chars().any(|letter| letter != '\n' && cortex_brain::deceives(letter)), "{drawn:?}");
        assert!(drawn.contains("\\u{1b}]52;c;") && drawn.contains("\\u{202e}x"), "{drawn}");
        assert!(drawn.contains("k\\n  help: run this") && drawn.contains("is\\nbad"), "{drawn}");
        assert!(!drawn.contains("\\u{d}"), "line ends of Windows are no news: {drawn}");
    }
}
