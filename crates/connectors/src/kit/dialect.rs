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

#[cfg(test)]
mod tests {
    use super::*;
    use cortex_testkit::html_shown;
    use proptest::prelude::*;

    /// Pieces that some platform takes for markup, in any order, and letters of all kinds between them.
    fn tricky_text() -> impl Strategy<Value = String> {
        let pieces = vec![
            "`",
            "``",
            "```",
            "\n",
            "\n\n",
            "*",
            "_",
            "~~",
            "||",
            "<",
            ">",
            "&",
            "&lt;",
            "&#42;",
            "\\",
            "[a](b)",
            "<b>",
            "</pre>",
            "</code>",
            "-# ",
            "# ",
            "> ",
            "- ",
            "1. ",
            ":x:",
            "<@1>",
            "<!channel>",
            "@here",
            "\"",
            "'",
            "{",
            "}",
            "$",
            " ",
            "  ",
            "x",
            "\\u{202e}",
            "é",
            "😀",
            "![p](u)",
            "~~~",
            "<https://e.example|g>",
        ];
        let piece = prop_oneof![
            4 => prop::sample::select(pieces).prop_map(str::to_owned),
            1 => "[^\\p{C}\\p{Z}]{1,6}",
        ];
        prop::collection::vec(piece, 0..60).prop_map(|pieces| pieces.concat())
    }

    /// Discord shows what stands between two fences as it is; else a backslash shows the sign behind it, and one that
    /// has none is markup.
    fn discord_shown(markdown: &str) -> String {
        if let Some(fenced) = markdown.strip_prefix("```\n") {
            let (inside, behind) = fenced.split_once("```").unwrap();
            assert_eq!(behind, "", "the fence ends early: {markdown}");
            return inside.strip_suffix('\n').unwrap().to_owned();
        }
        let mut shown = String::new();
        let mut letters = markdown.chars();
        while let Some(letter) = letters.next() {
            let is_escape = letter == '\\';
            assert!(is_escape || !letter.is_ascii_punctuation(), "{letter} is markup in {markdown}");
            shown.push(if is_escape { letters.next().unwrap() } else { letter });
        }
        shown
    }

    /// What a reader sees of a text that is shown as it is.
    fn shown(dialect: Dialect, text: &str, whole: &str) -> String {
        let rendered = dialect.verbatim(text, whole).map(|rendered| rendered.text);
        let in_block = |start: &str, end: &str| {
            let html = rendered.as_deref().unwrap_or_default();
            let inside = html.strip_prefix(start).and_then(|html| html.strip_suffix(end)).unwrap();
            // A tag inside would be markup, whatever it does.
            assert!(!inside.contains(['<', '>']), "{html}");
            html_shown(inside)
        };
        match dialect {
            Dialect::Plain => rendered.unwrap_or_default(),
            Dialect::DiscordMarkdown => discord_shown(rendered.as_deref().unwrap_or_default()),
            Dialect::TelegramHtml => in_block("<pre>", "</pre>"),
            Dialect::MatrixHtml => in_block("<pre><code>", "</code></pre>"),
            // It has a block of its own, in which nothing is markup.
            Dialect::SlackMrkdwn => {
                assert_eq!(rendered, None);
                text.to_owned()
            }
        }
    }

    const ALL: [Dialect; 5] = [
        Dialect::Plain,
        Dialect::DiscordMarkdown,
        Dialect::TelegramHtml,
        Dialect::MatrixHtml,
        Dialect::SlackMrkdwn,
    ];

    proptest! {
        #[test]
        fn a_text_that_is_shown_as_it_is_has_every_character(whole in tricky_text(), cut in any::<prop::sample::Index>()) {
            let ends: Vec<usize> = whole.char_indices().map(|(at, _)| at).chain([whole.len()]).collect();
            // All of it, and a beginning, as where a platform takes no more.
            for text in [whole.as_str(), &whole[..*cut.get(&ends)]] {
                for dialect in ALL {
                    prop_assert_eq!(shown(dialect, text, &whole), text, "{:?}", dialect);
                }
            }
        }
    }
}
