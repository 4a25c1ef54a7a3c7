//! Markdown → Slack's mrkdwn: `*bold*`, `_italic_`, `<url|text>`, and `& < >` escaped everywhere else.

use super::Rendered;
use super::telegram_html::escaped;
use crate::kit::split::units;
use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

pub(super) fn render(markdown: &str) -> Rendered {
    let options = Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TABLES | Options::ENABLE_TASKLISTS;
    let mut page = Page::default();
    for event in Parser::new_ext(markdown, options) {
        page.take(event);
    }
    let text = page.text.trim_end().to_owned();
    let units = units(&text);
    Rendered { text, units }
}

#[derive(Default)]
struct Page {
    text: String,
    /// The next number of each list around us; `None` for bullets.
    lists: Vec<Option<u64>>,
    quotes: usize,
    /// Line breaks owed before the next text.
    owed: usize,
    /// Whether each link around us leads somewhere that we show.
    links: Vec<bool>,
    is_in_code: bool,
    is_first_cell: bool,
}

impl Page {
    fn take(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(tag) => self.end(tag),
            Event::Text(text) | Event::Html(text) | Event::InlineHtml(text) => self.say(&text),
            Event::Code(code) => self.say_marked("`", &code),
            Event::SoftBreak | Event::HardBreak => self.say("\n"),
            Event::Rule => {
                self.say("———");
                self.owe(2);
            }
            Event::TaskListMarker(is_done) => self.say(if is_done { "☑ " } else { "☐ " }),
            Event::InlineMath(text) | Event::DisplayMath(text) | Event::FootnoteReference(text) => {
                self.say(&text);
            }
        }
    }

    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "a foreign enum; what has no mark here is only its text"
    )]
    fn start(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::Heading { .. } | Tag::Strong => self.mark("*"),
            Tag::Emphasis => self.mark("_"),
            Tag::Strikethrough => self.mark("~"),
            Tag::BlockQuote(_) => {
                self.pay();
                self.quotes += 1;
                self.mark("> ");
            }
            Tag::CodeBlock(_) => {
                self.mark("```\n");
                self.is_in_code = true;
            }
            Tag::List(first) => {
                if !self.lists.is_empty() {
                    self.owe(1);
                }
                self.lists.push(first);
            }
            Tag::Item => self.item(),
            Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. } => {
                let shows = is_shown(&dest_url) && !self.links.contains(&true);
                if shows {
                    self.mark(&format!("<{}|", escaped(&dest_url).replace('|', "%7C")));
                }
                self.links.push(shows);
            }
            Tag::TableHead | Tag::TableRow => self.is_first_cell = true,
            Tag::TableCell => {
                let mark = if std::mem::take(&mut self.is_first_cell) { "" } else { " | " };
                self.say(mark);
            }
            _ => {}
        }
    }

    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "a foreign enum; what has no mark here has no end either"
    )]
    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Paragraph => self.owe(if self.lists.is_empty() { 2 } else { 1 }),
            TagEnd::Heading(_) => {
                self.text.push('*');
                self.owe(2);
            }
            TagEnd::Strong => self.text.push('*'),
            TagEnd::Emphasis => self.text.push('_'),
            TagEnd::Strikethrough => self.text.push('~'),
            TagEnd::BlockQuote(_) => {
                self.quotes -= 1;
                self.owe(2);
            }
            TagEnd::CodeBlock => {
                self.is_in_code = false;
                self.text.push_str("```");
                self.owe(2);
            }
            TagEnd::List(_) => {
                self.lists.pop();
                self.owe(if self.lists.is_empty() { 2 } else { 1 });
            }
            TagEnd::Item | TagEnd::TableHead | TagEnd::TableRow => self.owe(1),
            TagEnd::Table | TagEnd::HtmlBlock => self.owe(2),
            TagEnd::Link | TagEnd::Image => {
                let mark = if self.links.pop() == Some(true) { ">" } else { "" };
                self.text.push_str(mark);
            }
            _ => {}
        }
    }

    fn item(&mut self) {
        let depth = self.lists.len().saturating_sub(1);
        let mark = match self.lists.last_mut() {
            Some(Some(number)) => {
                *number += 1;
                format!("{}. ", *number - 1)
            }
            Some(None) | None => "• ".to_owned(),
        };
        self.say(&format!("{}{mark}", "    ".repeat(depth)));
    }

    fn say_marked(&mut self, mark: &str, text: &str) {
        self.mark(mark);
        self.say(text);
        self.text.push_str(mark);
    }

    /// Text, with a quote's mark before each of its lines.
    fn say(&mut self, text: &str) {
        self.pay();
        let text = escaped(text);
        let line_start = format!("\n{}", self.line_start());
        // A zero-width space keeps three backticks inside a block from ending it.
        let text = if self.is_in_code { text.replace("```", "`\u{200b}``") } else { text };
        self.text.push_str(&text.replace('\n', &line_start));
    }

    fn mark(&mut self, mark: &str) {
        self.pay();
        self.text.push_str(mark);
    }

    fn line_start(&self) -> &'static str {
        if self.quotes > 0 && !self.is_in_code { "> " } else { "" }
    }

    fn owe(&mut self, breaks: usize) {
        self.owed = self.owed.max(breaks);
    }

    fn pay(&mut self) {
        let owed = std::mem::take(&mut self.owed);
        if !self.text.is_empty() {
            let start = self.line_start();
            for _ in 0..owed {
                self.text.push('\n');
                self.text.push_str(start);
            }
        }
    }
}

fn is_shown(url: &str) -> bool {
    ["http://", "https://", "mailto:"]
        .iter()
        .any(|scheme| url.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    fn check(markdown: &str, expected: &str) {
        assert_eq!(render(markdown).text, expected, "{markdown}");
    }

    #[test]
    fn markdown_becomes_mrkdwn() {
        check("**bold** *it* ~~gone~~ `a<b`", "*bold* _it_ ~gone~ `a&lt;b`");
        check("# Head\ntext", "*Head*\n\ntext");
        check("- a\n- b\n  - c\n\n3. x\n4. y", "• a\n• b\n    • c\n\n3. x\n4. y");
        check("> said\n> so\n\nyes", "> said\n> so\n\nyes");
        check("> a\n>\n> b", "> a\n> \n> b");
        check("```rust\n1 < 2\n```\n\nx", "```\n1 &lt; 2\n```\n\nx");
        check("[site](https://a.example/?x=1&y=2|3)", "<https://a.example/?x=1&amp;y=2%7C3|site>");
        check("| a | b |\n| - | - |\n| 1 | 2 |", "a | b\n1 | 2");
    }

    #[test]
    fn what_is_not_markup_calls_nobody() {
        check("<!channel> <@U1> & <b>x</b>", "&lt;!channel&gt; &lt;@U1&gt; &amp; &lt;b&gt;x&lt;/b&gt;");
        check("[x](javascript:alert(1))", "x");
        check("[x](<!here>)", "x");
        check("````\n```\n<!here>\n````", "```\n`\u{200b}``\n&lt;!here&gt;\n```");
    }

    proptest! {
        #[test]
        fn every_angle_bracket_belongs_to_a_link(markdown in "[a-c<>&!@|*_~`#\\[\\]()\\n -]{0,120}") {
            let text = render(&markdown).text;
            for (at, _) in text.match_indices('<') {
                prop_assert!(text[at..].starts_with("<http") || text[at..].starts_with("<mailto:"), "{markdown:?} → {text:?}");
            }
        }
    }
}
