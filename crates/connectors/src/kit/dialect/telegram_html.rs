//! Markdown → the HTML that the Telegram Bot API takes: a few tags, and `& < >` escaped everywhere else.

use super::Rendered;
use crate::kit::split::units;
use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};

pub(super) fn render(markdown: &str) -> Rendered {
    let options = Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TABLES | Options::ENABLE_TASKLISTS;
    let mut page = Page::default();
    for event in Parser::new_ext(markdown, options) {
        page.take(event);
    }
    let text = page.html.trim_end().to_owned();
    let dropped = page.html.len() - text.len();
    // Only blanks are dropped at the end, each a unit long.
    Rendered { text, units: page.units - dropped }
}

#[derive(Default)]
struct Page {
    html: String,
    /// The length without tags and with every entity as one letter.
    units: usize,
    /// Inline tags that are open, outermost first.
    open: Vec<Inline>,
    /// The next number of each list around us; `None` for bullets.
    lists: Vec<Option<u64>>,
    quotes: usize,
    /// Blank lines owed before the next text.
    owed: usize,
    is_first_cell: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Inline {
    Bold,
    Italic,
    Struck,
    Link(String),
}

impl Inline {
    fn opening(&self) -> String {
        match self {
            Self::Bold => "<b>".to_owned(),
            Self::Italic => "<i>".to_owned(),
            Self::Struck => "<s>".to_owned(),
            Self::Link(url) => format!("<a href=\"{}\">", escaped(url).replace('"', "&quot;")),
        }
    }

    fn closing(&self) -> &'static str {
        match self {
            Self::Bold => "</b>",
            Self::Italic => "</i>",
            Self::Struck => "</s>",
            Self::Link(_) => "</a>",
        }
    }
}

impl Page {
    fn take(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(tag) => self.end(tag),
            Event::Text(text) | Event::Html(text) | Event::InlineHtml(text) => self.text(&text),
            Event::Code(code) => self.code(&code),
            Event::SoftBreak | Event::HardBreak => self.text("\n"),
            Event::Rule => {
                self.text("———");
                self.owe(2);
            }
            Event::TaskListMarker(is_done) => self.text(if is_done { "☑ " } else { "☐ " }),
            Event::InlineMath(text) | Event::DisplayMath(text) | Event::FootnoteReference(text) => {
                self.text(&text);
            }
        }
    }

    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "a foreign enum; what has no tag here is only its text"
    )]
    fn start(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::Heading { .. } => {
                self.pay();
                self.open_inline(Inline::Bold);
            }
            Tag::BlockQuote(_) => {
                self.pay();
                // A quote inside a quote is refused.
                if self.quotes == 0 {
                    self.html.push_str("<blockquote>");
                }
                self.quotes += 1;
            }
            Tag::CodeBlock(kind) => self.open_code_block(&kind),
            Tag::List(first) => {
                if !self.lists.is_empty() {
                    self.owe(1);
                }
                self.lists.push(first);
            }
            Tag::Item => self.item(),
            Tag::Emphasis => self.open_inline(Inline::Italic),
            Tag::Strong => self.open_inline(Inline::Bold),
            Tag::Strikethrough => self.open_inline(Inline::Struck),
            Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. } => {
                self.open_inline(Inline::Link(dest_url.into_string()));
            }
            Tag::TableHead | Tag::TableRow => self.is_first_cell = true,
            Tag::TableCell => {
                let divider = if self.is_first_cell { "" } else { " | " };
                self.is_first_cell = false;
                self.text(divider);
            }
            _ => {}
        }
    }

    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "a foreign enum; what has no tag here has no end either"
    )]
    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Paragraph => self.owe(if self.lists.is_empty() { 2 } else { 1 }),
            TagEnd::Heading(_) => {
                self.close_inline();
                self.owe(2);
            }
            TagEnd::BlockQuote(_) => {
                self.quotes -= 1;
                if self.quotes == 0 {
                    self.html.push_str("</blockquote>");
                }
                self.owe(2);
            }
            TagEnd::CodeBlock => {
                self.html.push_str("</code></pre>");
                self.owe(2);
            }
            TagEnd::List(_) => {
                self.lists.pop();
                self.owe(if self.lists.is_empty() { 2 } else { 1 });
            }
            TagEnd::Item | TagEnd::TableHead | TagEnd::TableRow => self.owe(1),
            TagEnd::Table | TagEnd::HtmlBlock => self.owe(2),
            TagEnd::Emphasis | TagEnd::Strong | TagEnd::Strikethrough | TagEnd::Link | TagEnd::Image => {
                self.close_inline();
            }
            _ => {}
        }
    }

    fn item(&mut self) {
        self.pay();
        let depth = self.lists.len().saturating_sub(1);
        let mark = match self.lists.last_mut() {
            Some(Some(number)) => {
                *number += 1;
                format!("{}. ", *number - 1)
            }
            Some(None) | None => "• ".to_owned(),
        };
        self.text(&format!("{}{mark}", "  ".repeat(depth)));
    }

    fn open_code_block(&mut self, kind: &CodeBlockKind<'_>) {
        self.pay();
        let language = match kind {
            CodeBlockKind::Fenced(info) => info.split_whitespace().next().unwrap_or_default(),
            CodeBlockKind::Indented => "",
        };
        let is_name =
            |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_' | '+' | '#');
        if language.is_empty() || !language.chars().all(is_name) {
            self.html.push_str("<pre><code>");
        } else {
            self.html.push_str(&format!("<pre><code class=\"language-{language}\">"));
        }
    }

    fn open_inline(&mut self, inline: Inline) {
        self.pay();
        self.html.push_str(&shown_opening(&inline, &self.open));
        self.open.push(inline);
    }

    fn close_inline(&mut self) {
        if let Some(inline) = self.open.pop() {
            self.html.push_str(shown_closing(&inline, &self.open));
        }
    }

    /// Code may not stand inside other tags: they end before it and begin again behind it.
    fn code(&mut self, code: &str) {
        self.pay();
        if self.open.iter().any(|inline| matches!(inline, Inline::Link(_))) {
            return self.text(code);
        }
        let around = self.open.clone();
        for depth in (0..around.len()).rev() {
            self.html.push_str(shown_closing(&around[depth], &around[..depth]));
        }
        self.html.push_str("<code>");
        self.text(code);
        self.html.push_str("</code>");
        for depth in 0..around.len() {
            self.html.push_str(&shown_opening(&around[depth], &around[..depth]));
        }
    }

    fn text(&mut self, text: &str) {
        self.pay();
        self.html.push_str(&escaped(text));
        self.units += units(text);
    }

    fn owe(&mut self, breaks: usize) {
        self.owed = self.owed.max(breaks);
    }

    fn pay(&mut self) {
        let owed = std::mem::take(&mut self.owed);
        if !self.html.is_empty() {
            self.html.push_str(&"\n".repeat(owed));
            self.units += owed;
        }
    }
}

/// A tag inside the same tag, and a link that leads nowhere safe, are left out.
fn is_shown(inline: &Inline, around: &[Inline]) -> bool {
    match inline {
        Inline::Link(url) => {
            let is_known = ["http://", "https://", "tg://", "mailto:"].iter().any(|scheme| {
                url.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme))
            });
            is_known && !around.iter().any(|other| matches!(other, Inline::Link(_)))
        }
        Inline::Bold | Inline::Italic | Inline::Struck => !around.contains(inline),
    }
}

fn shown_opening(inline: &Inline, around: &[Inline]) -> String {
    if is_shown(inline, around) { inline.opening() } else { String::new() }
}

fn shown_closing(inline: &Inline, around: &[Inline]) -> &'static str {
    if is_shown(inline, around) { inline.closing() } else { "" }
}

pub(super) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
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
    fn markdown_becomes_the_tags_that_telegram_knows() {
        check("plain", "plain");
        check("**bold** and *italic* and ~~gone~~", "<b>bold</b> and <i>italic</i> and <s>gone</s>");
        check("# Head\ntext", "<b>Head</b>\n\ntext");
        check("one\n\ntwo\nthree", "one\n\ntwo\nthree");
        check("- a\n- b\n  - c\n\n3. x\n4. y", "• a\n• b\n  • c\n\n3. x\n4. y");
        check("> said\n> so\n\nyes", "<blockquote>said\nso</blockquote>\n\nyes");
        check("`a<b`", "<code>a&lt;b</code>");
        check(
            "```rust\nlet a = 1 < 2;\n```",
            "<pre><code class=\"language-rust\">let a = 1 &lt; 2;\n</code></pre>",
        );
        check(
            "[site](https://a.example/?x=1&y=\"2\")",
            "<a href=\"https://a.example/?x=1&amp;y=&quot;2&quot;\">site</a>",
        );
        check("| a | b |\n| - | - |\n| 1 | 2 |", "a | b\n1 | 2");
        check("- [x] done\n- [ ] open", "• ☑ done\n• ☐ open");
    }

    #[test]
    fn what_is_not_markup_is_escaped() {
        check("1 < 2 & 3 > 2", "1 &lt; 2 &amp; 3 &gt; 2");
        check(
            "<b>no</b> <script>alert(1)</script>",
            "&lt;b&gt;no&lt;/b&gt; &lt;script&gt;alert(1)&lt;/script&gt;",
        );
        check("&lt;i&gt;", "&lt;i&gt;");
        check("[x](javascript:alert(1))", "x");
        check("```\"><b>\nx\n```", "<pre><code>x\n</code></pre>");
    }

    #[test]
    fn code_stands_in_no_other_tag() {
        check("**a `b` c**", "<b>a </b><code>b</code><b> c</b>");
        check("# **x** `y`", "<b>x </b><code>y</code><b></b>");
        check("[`x`](https://a.example)", "<a href=\"https://a.example\">x</a>");
    }

    #[test]
    fn the_length_is_that_of_the_text_without_tags() {
        assert_eq!(render("**a** & `b<`\n\n- 😀").units, "a & b<\n\n• ".chars().count() + 2);
        assert_eq!(render("```\nabc\n```").units, 4);
    }

    /// Every tag that opens closes, in order, and no bare `<`, `>` or `&` is left.
    fn is_well_formed(html: &str) -> bool {
        let mut open: Vec<&str> = Vec::new();
        let mut rest = html;
        while let Some(start) = rest.find(['<', '>', '&']) {
            rest = &rest[start..];
            if let Some(entity) =
                ["&amp;", "&lt;", "&gt;", "&quot;"].iter().find(|entity| rest.starts_with(**entity))
            {
                rest = &rest[entity.len()..];
                continue;
            }
            let Some(end) = rest.find('>').filter(|_| rest.starts_with('<')) else { return false };
            let tag = &rest[1..end];
            rest = &rest[end + 1..];
            match tag.strip_prefix('/') {
                Some(name) if open.last() == Some(&name) => drop(open.pop()),
                Some(_) => return false,
                None => open.push(tag.split(' ').next().unwrap_or_default()),
            }
        }
        open.is_empty()
    }

    proptest! {
        #[test]
        fn whatever_is_written_comes_out_well_formed(
            markdown in "[a-c<>&\"*_~`#>\\-\\[\\]()! \\n|0-9.]{0,120}",
        ) {
            let html = render(&markdown).text;
            prop_assert!(is_well_formed(&html), "{markdown:?} → {html:?}");
        }
    }
}
