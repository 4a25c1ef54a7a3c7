//! Markdown as each platform writes it. Every letter of the text is escaped; nothing of it becomes markup by accident.

mod discord_markdown;
mod matrix_html;
mod slack_mrkdwn;
mod telegram_html;

use super::split::units;

/// How a platform formats text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// None: the text goes out as it is.
    Plain,
    /// Discord reads Markdown itself.
    DiscordMarkdown,
    /// The HTML subset of the Telegram Bot API; its length counts without the tags.
    TelegramHtml,
    /// The HTML that Matrix clients show.
    MatrixHtml,
    /// Slack's mrkdwn.
    SlackMrkdwn,
}

/// A text in a dialect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Rendered {
    pub(crate) text: String,
    /// Its length as the platform counts it.
    pub(crate) units: usize,
}

impl Rendered {
    fn of(text: String) -> Self {
        let units = units(&text);
        Self { text, units }
    }
}

impl Dialect {
    pub(crate) fn render(self, markdown: &str) -> Rendered {
        match self {
            Self::Plain | Self::DiscordMarkdown => Rendered::of(markdown.to_owned()),
            Self::TelegramHtml => telegram_html::render(markdown),
            Self::MatrixHtml => matrix_html::render(markdown),
            Self::SlackMrkdwn => slack_mrkdwn::render(markdown),
        }
    }

    /// The text itself, with nothing in it that the platform could take for markup.
    pub(crate) fn escape(self, text: &str) -> String {
        match self {
            Self::Plain => text.to_owned(),
            Self::DiscordMarkdown => discord_markdown::escaped(text),
            Self::TelegramHtml | Self::MatrixHtml | Self::SlackMrkdwn => telegram_html::escaped(text),
        }
    }
    /// A text that is displayed as it is, every character of it and nothing rendered; `whole` is what it is the
    /// beginning of. `None` where the platform has a place of its own for such a text.
    pub(crate) fn verbatim(self, text: &str, whole: &str) -> Option<Rendered> {
        let escaped = telegram_html::escaped(text);
        match self {
            Self::Plain => Some(Rendered::of(text.to_owned())),
            Self::DiscordMarkdown => Some(Rendered::of(discord_markdown::verbatim(text, whole))),
            // The tags do not count, and every entity counts as its character.
            Self::TelegramHtml => {
                Some(Rendered { text: format!("<pre>{escaped}</pre>"), units: units(text) })
            }
            Self::MatrixHtml => {
                Some(Rendered { text: format!("<pre><code>{escaped}</code></pre>"), units: units(text) })
            }
            Self::SlackMrkdwn => None,
        }
    }
}
