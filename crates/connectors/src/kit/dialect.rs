//! Markdown as each platform writes it. Every letter of the text is escaped; nothing of it becomes markup by accident.

mod telegram_html;

use super::split::units;

/// How a platform formats text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// None: the text goes out as it is.
    Plain,
    /// The HTML subset of the Telegram Bot API; its length counts without the tags.
    TelegramHtml,
}

/// A text in a dialect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Rendered {
    pub(crate) text: String,
    /// Its length as the platform counts it.
    pub(crate) units: usize,
}

impl Dialect {
    pub(crate) fn render(self, markdown: &str) -> Rendered {
        match self {
            Self::Plain => Rendered { text: markdown.to_owned(), units: units(markdown) },
            Self::TelegramHtml => telegram_html::render(markdown),
        }
    }

    /// The text itself, with nothing in it that the platform could take for markup.
    pub(crate) fn escape(self, text: &str) -> String {
        match self {
            Self::Plain => text.to_owned(),
            Self::TelegramHtml => telegram_html::escaped(text),
        }
    }
}
