//! Directives: `[[send_to:x]]` and `[[reply_to_current]]`, found anywhere outside code fences and taken out.

use super::Targets;

const OPEN: &str = "[[";
const CLOSE: &str = "]]";
const SEND: &str = "send_to:";
const REPLY: &str = "reply_to_current";
/// Digits of the number of a list item (CommonMark).
const NUMBER_DIGITS_MAX: usize = 9;

/// Takes directives out of an answer, whole or as it grows. What is decided is read once, also of a line that never ends.
#[derive(Debug, Clone)]
pub(crate) struct Stripper {
    text: String,
    targets: Targets,
    fence: Option<Fence>,
    /// The lines so far end inside a list item.
    in_list: bool,
    /// The line that has no end yet, behind what is decided of it.
    open_line: String,
    /// How the open line began, once nothing that follows can make it open or close a fence.
    plain: Option<Plain>,
}

/// A line that is what it looks like, whatever follows in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Plain {
    /// Whether it goes on in a list item.
    in_list: bool,
}

impl Default for Stripper {
    fn default() -> Self {
        Self {
            text: String::new(),
            targets: Targets { current: false, channels: Vec::new() },
            fence: None,
            in_list: false,
            open_line: String::new(),
            plain: None,
        }
    }
}

/// What may be shown of an answer that grows.
pub(crate) struct SafeText<'a> {
    pub(crate) lines: &'a str,
    /// Of the line that has no end yet.
    pub(crate) open: String,
    /// The directives so far send all of it to other channels alone.
    pub(crate) is_for_elsewhere: bool,
}

/// A code fence that is open: its letter and how many of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Fence {
    letter: char,
    count: usize,
    /// It stands in a list item or a quote.
    is_nested: bool,
}

impl Stripper {
    pub(crate) fn push(&mut self, delta: &str) {
        for piece in delta.split_inclusive('\n') {
            self.open_line.push_str(piece);
            if piece.ends_with('\n') {
                let line = std::mem::take(&mut self.open_line);
                self.take_line(&line);
            } else {
                self.settle();
            }
        }
    }

    /// Takes in what is decided of the open line: each delta of a long one would else read all of it again.
    fn settle(&mut self) {
        if self.plain.is_none() {
            let is_plain = match self.fence {
                Some(fence) => !may_close(&self.open_line, fence),
                None => is_no_fence(&self.open_line),
            };
            let in_list = self.fence.is_none() && goes_on_in_list(&self.open_line, self.in_list);
            self.plain = is_plain.then_some(Plain { in_list });
        }
        if self.plain.is_none() {
            return;
        }
        let rest = match self.fence {
            Some(_) => String::new(),
            None => self.open_line.split_off(decided(&self.open_line)),
        };
        let line = std::mem::replace(&mut self.open_line, rest);
        if self.fence.is_some() { self.text.push_str(&line) } else { self.strip(&line) }
    }

    /// The text so far: of complete lines, and of the open one what cannot become a directive any more.
    pub(crate) fn safe(&self) -> SafeText<'_> {
        let line = &self.open_line;
        // Whether a line opens a fence is known at its end.
        let undecided = self.fence.is_none() && self.plain.is_none() && opened(line, self.in_list).is_some();
        let held = held_back(line, undecided);
        let (open, targets) = match self.fence {
            Some(_) => (line.clone(), self.targets.clone()),
            None if undecided => (line[..held].to_owned(), self.targets.clone()),
            None => self.stripped(&line[..held]),
        };
        SafeText {
            lines: &self.text,
            open,
            is_for_elsewhere: !targets.current && !targets.channels.is_empty(),
        }
    }

    /// A piece behind the text so far, without its directives, and the targets with them.
    fn stripped(&self, piece: &str) -> (String, Targets) {
        let before: String = self.text.chars().next_back().into_iter().collect();
        let at = before.len();
        let mut tail = Self { text: before, targets: self.targets.clone(), ..Self::default() };
        tail.strip(piece);
        (tail.text.split_off(at), tail.targets)
    }

    pub(crate) fn finish(mut self) -> (String, Targets) {
        let line = std::mem::take(&mut self.open_line);
        self.take_line(&line);
        (self.text, self.targets)
    }

    fn take_line(&mut self, line: &str) {
        match (self.fence, self.plain.take()) {
            (Some(_), Some(_)) => self.text.push_str(line),
            (None, Some(plain)) => {
                self.in_list = plain.in_list;
                self.strip(line);
            }
            (Some(fence), None) => {
                self.text.push_str(line);
                if closes(line, fence) {
                    self.fence = None;
                }
            }
            (None, None) => {
                self.fence = opened(line, self.in_list);
                self.in_list = goes_on_in_list(line, self.in_list);
                if self.fence.is_some() { self.text.push_str(line) } else { self.strip(line) }
            }
        }
    }

    fn strip(&mut self, line: &str) {
        let mut rest = line;
        while let Some(at) = rest.find(OPEN) {
            let Some((length, directive)) = read(&rest[at..]) else {
                // One bracket on: `[[[send_to:x]]` has a directive behind its first.
                self.text.push_str(&rest[..=at]);
                rest = &rest[at + 1..];
                continue;
            };
            self.text.push_str(&rest[..at]);
            rest = &rest[at + length..];
            self.honour(directive);
            rest = self.without_its_gap(rest);
        }
        self.text.push_str(rest);
    }

    fn honour(&mut self, directive: Directive<'_>) {
        match directive {
            Directive::Reply => self.targets.current = true,
            Directive::Send(name) if self.targets.channels.iter().any(|known| known == name) => {}
            Directive::Send(name) => self.targets.channels.push(name.to_owned()),
        }
    }

    /// A directive at the start of a line takes the space or line end behind it along, one between two spaces one of them.
    fn without_its_gap<'a>(&self, rest: &'a str) -> &'a str {
        let gap = match self.text.chars().next_back() {
            None | Some('\n') => rest.strip_prefix("\r\n").or_else(|| rest.strip_prefix(['\n', ' '])),
            Some(' ') => rest.strip_prefix(' '),
            Some(_) => None,
        };
        gap.unwrap_or(rest)
    }
}

enum Directive<'a> {
    Send(&'a str),
    Reply,
}

/// The directive that `text` begins with, and its length.
fn read(text: &str) -> Option<(usize, Directive<'_>)> {
    let body = text.strip_prefix(OPEN)?;
    let end = body.find(CLOSE)?;
    let directive = match &body[..end] {
        REPLY => Directive::Reply,
        body => Directive::Send(body.strip_prefix(SEND).filter(|name| is_name(name))?),
    };
    Some((OPEN.len() + end + CLOSE.len(), directive))
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && name.chars().all(is_name_letter)
}

fn is_name_letter(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || matches!(letter, '_' | '.' | ':' | '-')
}

/// Where the part of an unfinished line begins that more text may make a directive; its length when there is none.
fn held_back(line: &str, undecided: bool) -> usize {
    let first = line.find('[').filter(|_| undecided);
    first.unwrap_or_else(|| {
        let brackets = line.match_indices('[').map(|(at, _)| at);
        brackets.into_iter().find(|at| may_become_directive(&line[*at..])).unwrap_or(line.len())
    })
}

/// How much of an unfinished line can be taken in: a directive at its end waits for the space that it takes along.
fn decided(line: &str) -> usize {
    let held = held_back(line, false);
    let whole = &line[..held];
    let body = whole.strip_suffix('\r').unwrap_or(whole);
    let last = body.ends_with(CLOSE).then(|| body.rfind(OPEN)).flatten();
    match last {
        Some(at) if read(&body[at..]).is_some() => at,
        Some(_) | None => held,
    }
}

fn may_become_directive(text: &str) -> bool {
    let Some(body) = text.strip_prefix(OPEN) else { return text == "[" };
    let beginning = |whole: &str| whole.starts_with(body);
    if beginning("reply_to_current]]") || beginning(SEND) {
        return body != "reply_to_current]]";
    }
    let Some(name) = body.strip_prefix(SEND) else { return false };
    let name = name.strip_suffix(']').unwrap_or(name);
    is_name(name)
}

/// The fence that a line opens: three or more backticks or tildes after at most three spaces (CommonMark), or at any
/// depth of lists and quotes.
fn opened(line: &str, in_list: bool) -> Option<Fence> {
    let (inner, is_marked) = without_markers(line);
    let is_nested = is_marked || in_list;
    let (fence, rest) = run_of_fence(inner, is_nested)?;
    // Backticks further on make it a span of code inside a line.
    (fence.letter == '~' || !rest.contains('`')).then_some(fence)
}

/// A nested fence is closed at any depth: what is code for whoever reads it must not be sent, so in doubt it is open.
fn closes(line: &str, open: Fence) -> bool {
    let inner = if open.is_nested { line.trim_start_matches([' ', '>']) } else { line };
    run_of_fence(inner, open.is_nested).is_some_and(|(fence, rest)| {
        fence.letter == open.letter && fence.count >= open.count && rest.trim().is_empty()
    })
}

/// Whether more text may make this the line that closes a fence.
fn may_close(line: &str, open: Fence) -> bool {
    let inner = if open.is_nested { line.trim_start_matches([' ', '>']) } else { line };
    let body = inner.trim_start_matches(' ');
    body.trim_start_matches(open.letter).trim().is_empty()
}

/// Whether no text that follows makes this a line that opens a fence, or one of a list.
fn is_no_fence(line: &str) -> bool {
    let (inner, _) = without_markers(line);
    let inner = inner.trim_start_matches(' ');
    let Some(first) = inner.chars().next() else { return false };
    match first {
        '`' | '~' => {
            let rest = inner.trim_start_matches(first);
            let is_run = inner.len() - rest.len() >= 3;
            !rest.is_empty() && (!is_run || first == '`' && rest.contains('`'))
        }
        '-' | '*' | '+' => inner.len() > 1,
        '0'..='9' => {
            let behind = inner.trim_start_matches(|letter: char| letter.is_ascii_digit());
            inner.len() - behind.len() > NUMBER_DIGITS_MAX || !matches!(behind, "" | "." | ")")
        }
        _ => true,
    }
}

fn run_of_fence(line: &str, is_nested: bool) -> Option<(Fence, &str)> {
    let body = line.trim_start_matches(' ');
    let letter = body.chars().next().filter(|letter| matches!(letter, '`' | '~'))?;
    let rest = body.trim_start_matches(letter);
    let count = body.len() - rest.len();
    let is_near = is_nested || line.len() - body.len() <= 3;
    (is_near && count >= 3).then_some((Fence { letter, count, is_nested }, rest))
}

/// The line behind its marks of quotes and list items, and whether it has any.
fn without_markers(line: &str) -> (&str, bool) {
    let mut inner = line;
    while let Some(rest) = behind_marker(inner.trim_start_matches(' ')) {
        inner = rest;
    }
    (inner, inner.len() < line.len())
}

fn behind_marker(line: &str) -> Option<&str> {
    line.strip_prefix('>').or_else(|| behind_bullet(line))
}

fn behind_bullet(line: &str) -> Option<&str> {
    let number = line.trim_start_matches(|letter: char| letter.is_ascii_digit());
    let mark = if number.len() < line.len() {
        (line.len() - number.len() <= NUMBER_DIGITS_MAX).then_some(number)?.strip_prefix(['.', ')'])
    } else {
        line.strip_prefix(['-', '*', '+'])
    };
    mark?.strip_prefix(' ')
}

/// A list item goes on until a line that is neither empty, indented nor an item.
fn goes_on_in_list(line: &str, in_list: bool) -> bool {
    let inner = line.trim_start_matches([' ', '>']);
    behind_bullet(inner).is_some() || (in_list && (line.trim().is_empty() || inner.len() < line.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, said: &str, channels: &[&str]) {
        let mut stripper = Stripper::default();
        stripper.push(text);
        let (found, targets) = stripper.finish();
        assert_eq!(
            (found.as_str(), targets.channels),
            (said, channels.iter().map(|&c| c.to_owned()).collect())
        );
    }

    #[test]
    fn nothing_inside_a_code_fence_is_a_directive() {
        check("```\n[[send_to:x]]\n```\n", "```\n[[send_to:x]]\n```\n", &[]);
        check(
            "  ~~~~ md\n[[send_to:x]]\n~~~\n~~~~\n[[send_to:y]]z",
            "  ~~~~ md\n[[send_to:x]]\n~~~\n~~~~\nz",
            &["y"],
        );
        check("```\nnever closed [[send_to:x]]", "```\nnever closed [[send_to:x]]", &[]);
        check("    ```\n[[send_to:x]]a", "    ```\na", &["x"]);
    }

    #[test]
    fn a_fence_in_a_list_item_or_a_quote_is_one_too() {
        for code in [
            "- ```\n[[send_to:x]]\n",
            "- ```\n  [[send_to:x]]\n  ```\n",
            "> ```\n> [[send_to:x]]\n> ```\n",
            "1. Do this:\n\n    ```sh\n    [[send_to:x]]\n    ```\n",
            "- a\n  - b\n    - ~~~\n      [[send_to:x]]\n      ~~~\n",
            "> 12) ```\n>     [[send_to:x]]\n",
            "* > ```\n  > [[send_to:x]]\n",
        ] {
            check(code, code, &[]);
        }
        check("- ```\n  a\n  ```\n[[send_to:x]]b", "- ```\n  a\n  ```\nb", &["x"]);
        check("> ```\n> a\n> ```\n[[send_to:x]]b", "> ```\n> a\n> ```\nb", &["x"]);
        check("- a\nb\n    ```\n[[send_to:x]]c", "- a\nb\n    ```\nc", &["x"]);
        check("- [[send_to:x]] a\n2.```\n[[send_to:y]]b", "- a\n2.```\nb", &["x", "y"]);
    }

    #[test]
    fn a_span_of_code_inside_a_line_is_no_fence() {
        check("```a``` [[send_to:x]]\n[[send_to:y]]b", "```a``` \nb", &["x", "y"]);
    }

    #[test]
    fn what_is_not_quite_a_directive_stays() {
        for text in [
            "[[send_to:]]",
            "[[send_to:a b]]",
            "[[send_to:ä]]",
            "[[Send_to:a]]",
            "[send_to:a]",
            "[[send_to:a]",
        ] {
            check(text, text, &[]);
        }
        check("[[[send_to:a]]]", "[]", &["a"]);
        check("[[x [[send_to:a]] y", "[[x y", &["a"]);
    }

    #[test]
    fn of_a_line_that_never_ends_little_is_kept_to_be_read_again() {
        for piece in ["word ", "x]]", "[[send_to:a]]", " [[send_to:a]]\r", "`a", "[[", "- a", "9"] {
            let mut stripper = Stripper::default();
            stripper.push("it ");
            for _ in 0..1_000 {
                stripper.push(piece);
                assert!(stripper.open_line.len() < 64, "{piece:?}: {:?}", stripper.open_line.len());
            }
        }
        let mut number = Stripper::default();
        (0..1_000).for_each(|_| number.push("9"));
        assert!(number.open_line.len() < 64);
        let mut code = Stripper::default();
        code.push("```\n");
        (0..1_000).for_each(|_| code.push("let "));
        assert!(code.open_line.len() < 64);
    }

    proptest::proptest! {
        #[test]
        fn an_answer_in_pieces_is_read_as_one(
            pieces in proptest::collection::vec(
                proptest::sample::select(vec![
                    "[", "[[", "]]", "]", "send_to:", "reply_to_current", "x-1", " ", "\n", "\r\n", "\r", "```", "~~~", "`", "é",
                    "[[send_to:a]]", "- ", "-", "> ", ">", "1. ", "1", ".", "[[reply_to_current]]", "word", "    ", "``",
                ]),
                0..40,
            ),
        ) {
            let (mut grown, mut whole) = (Stripper::default(), Stripper::default());
            pieces.iter().for_each(|piece| grown.push(piece));
            whole.push(&pieces.concat());
            let (grown, whole) = (grown.finish(), whole.finish());
            proptest::prop_assert_eq!(grown.0, whole.0);
            proptest::prop_assert_eq!(grown.1.channels, whole.1.channels);
            proptest::prop_assert_eq!(grown.1.current, whole.1.current);
        }
    }

    #[test]
    fn a_directive_takes_no_more_than_its_gap_along() {
        check("a\n[[send_to:x]]\nb", "a\nb", &["x"]);
        check("[[send_to:x]]\r\nb", "b", &["x"]);
        check("a [[send_to:x]] b", "a b", &["x"]);
        check("a [[send_to:x]]\nb", "a \nb", &["x"]);
        check("a[[send_to:x]]b", "ab", &["x"]);
    }
}
