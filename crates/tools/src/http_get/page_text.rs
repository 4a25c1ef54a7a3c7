//! The words of an HTML page, without its markup.

/// Elements whose content nobody reads.
const HIDDEN: &[&str] = &["script", "style", "template", "noscript", "svg", "iframe", "object"];
/// Elements that end a line.
const BLOCKS: &[&str] = &[
    "address",
    "article",
    "aside",
    "blockquote",
    "br",
    "dd",
    "div",
    "dl",
    "dt",
    "figure",
    "footer",
    "form",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "header",
    "hr",
    "li",
    "main",
    "nav",
    "ol",
    "option",
    "p",
    "pre",
    "section",
    "table",
    "td",
    "th",
    "title",
    "tr",
    "ul",
];
const ENTITIES: &[(&str, char)] = &[
    ("amp", '&'),
    ("lt", '<'),
    ("gt", '>'),
    ("quot", '"'),
    ("apos", '\''),
    ("nbsp", ' '),
    ("ndash", '–'),
    ("mdash", '—'),
    ("hellip", '…'),
    ("copy", '©'),
    ("euro", '€'),
];
const ENTITY_BYTES_MAX: usize = 10;

/// Text in lines, with runs of space made one. It never fails: what is no markup is text.
pub(super) fn page_text(html: &str) -> String {
    let mut page = Page::default();
    let mut rest = html;
    while let Some(start) = rest.find('<') {
        page.push_text(&rest[..start]);
        rest = &rest[start..];
        rest = match Markup::at(rest) {
            Markup::PlainText => {
                page.push_text("<");
                &rest[1..]
            }
            Markup::Comment { end } => &rest[end..],
            Markup::Tag { name, end } => {
                if BLOCKS.contains(&name.as_str()) {
                    page.end_line();
                }
                let after = &rest[end..];
                if HIDDEN.contains(&name.as_str()) { after_closing(after, &name) } else { after }
            }
        };
    }
    page.push_text(rest);
    page.text.trim().to_owned()
}

enum Markup {
    PlainText,
    Comment {
        end: usize,
    },
    /// An opening tag has its name; a closing one counts as a tag of that name for line ends alone.
    Tag {
        name: String,
        end: usize,
    },
}

impl Markup {
    /// What stands at a `<`.
    fn at(text: &str) -> Self {
        if let Some(comment) = text.strip_prefix("<!--") {
            return Self::Comment { end: comment.find("-->").map_or(text.len(), |end| 4 + end + 3) };
        }
        let is_closing = text.starts_with("</");
        let inside = &text[if is_closing { 2 } else { 1 }..];
        let name: String = inside.chars().take_while(char::is_ascii_alphanumeric).collect();
        if name.is_empty() && !inside.starts_with(['!', '?']) {
            return Self::PlainText;
        }
        let end = text.find('>').map_or(text.len(), |end| end + 1);
        if name.is_empty() {
            return Self::Comment { end };
        }
        let name = name.to_ascii_lowercase();
        let is_hidden_closing = is_closing && HIDDEN.contains(&name.as_str());
        if is_hidden_closing { Self::Comment { end } } else { Self::Tag { name, end } }
    }
}

/// What follows the closing tag, or nothing when there is none.
fn after_closing<'a>(text: &'a str, name: &str) -> &'a str {
    let closing = |(start, _): &(usize, &str)| {
        let after = &text.as_bytes()[start + 2..];
        after.get(..name.len()).is_some_and(|found| found.eq_ignore_ascii_case(name.as_bytes()))
    };
    let Some((start, _)) = text.match_indices("</").find(closing) else { return "" };
    text[start..].find('>').map_or("", |end| &text[start + end + 1..])
}

#[derive(Default)]
struct Page {
    text: String,
}

impl Page {
    fn push_text(&mut self, text: &str) {
        let mut rest = text;
        while let Some(next) = rest.chars().next() {
            let (letter, length) = if next == '&' { entity(rest) } else { (next, next.len_utf8()) };
            self.push(letter);
            rest = &rest[length..];
        }
    }

    fn push(&mut self, letter: char) {
        if !letter.is_whitespace() {
            self.text.push(letter);
        } else if !self.text.is_empty() && !self.text.ends_with([' ', '\n']) {
            self.text.push(' ');
        }
    }

    fn end_line(&mut self) {
        let length = self.text.trim_end_matches(' ').len();
        self.text.truncate(length);
        if !self.text.is_empty() && !self.text.ends_with('\n') {
            self.text.push('\n');
        }
    }
}

/// The character at a `&` and how many bytes it is written with.
fn entity(text: &str) -> (char, usize) {
    let plain = ('&', 1);
    let window = text.bytes().take(ENTITY_BYTES_MAX + 2).position(|byte| byte == b';');
    let Some(end) = window else { return plain };
    let name = &text[1..end];
    let named = ENTITIES.iter().find(|(known, _)| *known == name).map(|(_, letter)| *letter);
    let numbered = || {
        let digits = name.strip_prefix('#')?;
        let code = match digits.strip_prefix(['x', 'X']) {
            Some(hex) => u32::from_str_radix(hex, 16).ok()?,
            None => digits.parse().ok()?,
        };
        char::from_u32(code)
    };
    named.or_else(numbered).map_or(plain, |letter| (letter, end + 1))
}

#[cfg(test)]
mod tests {
    use super::page_text;

    #[test]
    fn a_page_becomes_the_words_a_person_would_read() {
        let html = "<!doctype html><head><title>A &amp; B</title><style>p{}</style></head><body>\n\
                    <script>if (a < b) { '</div>' }</script><h1>Big\n  news</h1><p>One <b>two</b>&nbsp;three</p>\
                    <!-- <p>hidden</p> --><ul><li>x &lt; y<li>&#8364;&#x41;</ul>3 < 4 &unknown; R&D</body>";
        assert_eq!(page_text(html), "A & B\nBig news\nOne two three\nx < y\n€A\n3 < 4 &unknown; R&D");
    }

    #[test]
    fn broken_markup_never_fails() {
        for html in
            ["<", "<!--", "<script>", "</", "<a", "&", "&#xFFFFFFFF;", "<script>ä</scr", "a<\u{e9}>b", "&é;"]
        {
            assert!(page_text(html).len() <= html.len(), "{html:?}");
        }
        assert_eq!(page_text("a<\u{e9}>b"), "a<\u{e9}>b");
        assert_eq!(page_text("<script>ä</scr"), "");
    }
}
