//! Markdown → the HTML that Matrix clients show. Raw HTML stays text, and nothing is fetched by who reads it.

use super::Rendered;
use crate::kit::split::units;
use pulldown_cmark::{CowStr, Event, Options, Parser, Tag, TagEnd, html};

/// The length is that of the text as it was written: Matrix bounds the bytes of the whole event.
pub(super) fn render(markdown: &str) -> Rendered {
    let options = Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TABLES | Options::ENABLE_TASKLISTS;
    let mut text = String::new();
    html::push_html(&mut text, Parser::new_ext(markdown, options).filter_map(tamed));
    Rendered { text: text.trim_end().to_owned(), units: units(markdown) }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "a foreign enum; what is not dangerous stays as it is")]
fn tamed(event: Event<'_>) -> Option<Event<'_>> {
    Some(match event {
        Event::Html(raw) | Event::InlineHtml(raw) => Event::Text(raw),
        Event::SoftBreak => Event::HardBreak,
        // A picture is a link: clients would fetch it, and tell its server who read the message.
        Event::Start(
            Tag::Image { link_type, dest_url, title, id } | Tag::Link { link_type, dest_url, title, id },
        ) => {
            let dest_url = if is_safe(&dest_url) { dest_url } else { CowStr::Borrowed("") };
            Event::Start(Tag::Link { link_type, dest_url, title, id })
        }
        Event::End(TagEnd::Image) => Event::End(TagEnd::Link),
        Event::TaskListMarker(is_done) => Event::Text(if is_done { "☑ " } else { "☐ " }.into()),
        other => other,
    })
}

fn is_safe(url: &str) -> bool {
    ["http://", "https://", "mailto:", "matrix:"]
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
    fn markdown_becomes_html() {
        check(
            "**bold** *it* ~~gone~~ `a<b`",
            "<p><strong>bold</strong> <em>it</em> <del>gone</del> <code>a&lt;b</code></p>",
        );
        check("# Head\none\ntwo", "<h1>Head</h1>\n<p>one<br />\ntwo</p>");
        check("- a\n- b", "<ul>\n<li>a</li>\n<li>b</li>\n</ul>");
        check("```rust\n1 < 2\n```", "<pre><code class=\"language-rust\">1 &lt; 2\n</code></pre>");
        check("[x](https://a.example)", "<p><a href=\"https://a.example\">x</a></p>");
        check("- [x] done", "<ul>\n<li>☑ done</li>\n</ul>");
    }

    #[test]
    fn raw_html_stays_text_and_pictures_become_links() {
        check("a <b>c</b>", "<p>a &lt;b&gt;c&lt;/b&gt;</p>");
        check("<script>alert(1)</script>", "&lt;script&gt;alert(1)&lt;/script&gt;");
        check("![x](https://a.example/p.png)", "<p><a href=\"https://a.example/p.png\">x</a></p>");
        check("[x](javascript:alert(1))", "<p><a href=\"\">x</a></p>");
        check(
            "![a ![b](https://c.example)](https://d.example)",
            "<p><a href=\"https://d.example\">a <a href=\"https://c.example\">b</a></a></p>",
        );
    }

    proptest! {
        #[test]
        fn no_markup_of_the_text_gets_through(markdown in "[a-c<>&\"'*_`#\\[\\]()!: /=\\n]{0,120}") {
            let html = render(&markdown).text;
            for forbidden in ["<script", "<img", "<b>", "<a>", "<c"] {
                if forbidden == "<c" && html.contains("<code") {
                    continue;
                }
                prop_assert!(!html.contains(forbidden), "{markdown:?} → {html:?}");
            }
        }
    }
}
