//! How deep a source nests at most, before a parser that calls itself for every level is let near it.

/// Brackets inside brackets.
const BRACKETS_MAX: usize = 1_000;
/// Levels of everything else that can nest without brackets, such as `a + a + a` or `!!!!a`, between two semicolons.
const CHAIN_MAX: usize = 20_000;
/// What one level may take of the stack.
const LEVEL_BYTES: usize = 16 * 1024;
const STACK_MIN: usize = 32 * 1024 * 1024;
const STACK_MAX: usize = BRACKETS_MAX * LEVEL_BYTES + CHAIN_MAX * LEVEL_BYTES;

/// The stack that a parser needs for this source, or the offset where the source nests too deeply.
pub(super) fn stack_for(source: &str) -> Result<usize, usize> {
    let mut scan = Scan::of(source);
    let mut deepest = 0;
    while let Some(depth) = scan.next() {
        if depth > CHAIN_MAX || scan.open.len() > BRACKETS_MAX || scan.is_unreadable {
            return Err(scan.at);
        }
        deepest = deepest.max(depth);
    }
    Ok((deepest * LEVEL_BYTES * 2).clamp(STACK_MIN, STACK_MAX))
}

/// An open bracket, and the tokens since the last semicolon or comma in it.
struct Level {
    tokens: usize,
    is_template: bool,
    /// What the closing bracket ends.
    ends: Before,
}

/// What stands before a slash says what the slash is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Before {
    /// A slash divides it.
    Value,
    /// A slash behind it begins a pattern.
    Operator,
    /// Only a parser could tell.
    Doubtful,
}

/// Words behind which a value begins.
const OPERATOR_WORDS: [&[u8]; 17] = [
    b"return",
    b"typeof",
    b"case",
    b"in",
    b"delete",
    b"void",
    b"instanceof",
    b"new",
    b"do",
    b"else",
    b"throw",
    b"await",
    b"extends",
    b"default",
    b"if",
    b"while",
    b"for",
];
/// Words that are names elsewhere, or end a statement with their line.
const DOUBTFUL_WORDS: [&[u8]; 6] = [b"of", b"yield", b"break", b"continue", b"debugger", b"with"];

struct Scan<'a> {
    source: &'a str,
    bytes: &'a [u8],
    at: usize,
    open: Vec<Level>,
    /// The tokens of all levels but the last.
    before: usize,
    last: Before,
    /// The last word, while it is the last token and no name of a property.
    word: &'a [u8],
    /// The last token is the dot before a property.
    is_behind_dot: bool,
    /// A line ended since the last token.
    is_new_line: bool,
    /// Two readings of it hide different brackets.
    is_unreadable: bool,
}

impl<'a> Scan<'a> {
    fn of(source: &'a str) -> Self {
        let mut scan = Self {
            source,
            bytes: source.as_bytes(),
            at: 0,
            open: Vec::new(),
            before: 0,
            last: Before::Operator,
            word: b"",
            is_behind_dot: false,
            is_new_line: true,
            is_unreadable: false,
        };
        if source.starts_with("#!") {
            scan.skip_line();
        }
        scan
    }

    /// Reads one token and gives the depth that it can have at most.
    fn next(&mut self) -> Option<usize> {
        let byte = *self.bytes.get(self.at)?;
        let start = self.at;
        self.at += 1;
        match byte {
            b' ' | b'\t' => {}
            b'\r' | b'\n' => self.is_new_line = true,
            _ if self.blank_at(start) > 0 => {
                self.is_new_line |= is_line_end(&self.bytes[start..]);
                self.at = start + self.blank_at(start);
            }
            b'/' if self.peek() == Some(b'/') => self.skip_line(),
            b'/' if self.peek() == Some(b'*') => {
                self.at += 1;
                self.skip_comment();
            }
            b'/' => self.slash(),
            b'"' | b'\'' => {
                self.skip_text(byte);
                self.is_now(Before::Value);
            }
            b'`' => self.template(),
            b'(' => self.open(false, self.end_of_parenthesis()),
            b'[' => self.open(false, Before::Value),
            b'{' => self.open(false, Before::Doubtful),
            b')' | b']' => drop(self.close()),
            b'}' => {
                if self.close() {
                    self.template();
                }
            }
            b';' | b',' => {
                self.level().tokens = 0;
                self.is_now(Before::Operator);
            }
            _ if is_word(byte) => self.word(start),
            _ => self.sign(byte),
        }
        Some(self.before + self.open.last().map_or(0, |level| level.tokens))
    }

    /// The bytes of the blank that stands here, also where it is none of ASCII's.
    fn blank_at(&self, at: usize) -> usize {
        let letter = self.source.get(at..).and_then(|rest| rest.chars().next());
        letter.filter(|letter| letter.is_whitespace() || *letter == '\u{feff}').map_or(0, char::len_utf8)
    }

    fn is_now(&mut self, last: Before) {
        (self.last, self.word, self.is_behind_dot, self.is_new_line) = (last, b"", false, false);
    }

    fn word(&mut self, start: usize) {
        while self.peek().is_some_and(is_word) && self.blank_at(self.at) == 0 {
            self.at += 1;
        }
        self.level().tokens += 1;
        let word = &self.bytes[start..self.at];
        let is_property = self.is_behind_dot;
        self.is_now(match word {
            _ if is_property => Before::Value,
            word if OPERATOR_WORDS.contains(&word) => Before::Operator,
            word if DOUBTFUL_WORDS.contains(&word) => Before::Doubtful,
            _ => Before::Value,
        });
        self.word = if is_property { b"" } else { word };
    }

    fn sign(&mut self, byte: u8) {
        self.level().tokens += 1;
        let is_twice = self.peek() == Some(byte);
        // Behind a value on its line these belong to it: `a++`, and the `a!` of TypeScript.
        let behind = if self.is_new_line { Before::Operator } else { self.last };
        let last = match byte {
            b'+' | b'-' if is_twice => {
                self.at += 1;
                behind
            }
            b'!' if self.peek() != Some(b'=') => behind,
            // Types in angle brackets are followed by an operator, a comparison by a value.
            b'>' if self.at < 2 || self.bytes[self.at - 2] != b'=' => Before::Doubtful,
            // A number may end with one.
            b'.' => Before::Doubtful,
            _ => Before::Operator,
        };
        let is_dot = byte == b'.' && !is_twice && (self.at < 2 || self.bytes[self.at - 2] != b'.');
        self.is_now(last);
        self.is_behind_dot = is_dot;
    }

    /// Behind the head of a statement there is no value to divide.
    fn end_of_parenthesis(&self) -> Before {
        match self.word {
            b"if" | b"while" | b"for" => Before::Operator,
            b"await" | b"with" => Before::Doubtful,
            _ => Before::Value,
        }
    }

    fn slash(&mut self) {
        // A statement may end with its line, and then nothing is divided.
        let is_doubtful = self.last == Before::Doubtful || (self.last == Before::Value && self.is_new_line);
        if is_doubtful {
            let rest = &self.bytes[self.at..];
            let end = (0..rest.len()).find(|at| is_line_end(&rest[*at..])).unwrap_or(rest.len());
            let line = &rest[..end];
            let has_brackets = line.iter().any(|byte| b"()[]{}\"'`".contains(byte));
            let is_harmless = !has_brackets && !line.windows(2).any(|pair| pair == b"/*");
            if is_harmless {
                self.level().tokens += line.len();
                self.at += end;
                return self.is_now(Before::Value);
            }
            // A pattern ends on its line.
            self.is_unreadable = line.contains(&b'/');
        }
        if self.last == Before::Operator {
            self.skip_pattern();
            self.is_now(Before::Value);
        } else {
            self.level().tokens += 1;
            self.is_now(Before::Operator);
        }
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn level(&mut self) -> &mut Level {
        if self.open.is_empty() {
            self.open.push(Level { tokens: 0, is_template: false, ends: Before::Operator });
        }
        let last = self.open.len() - 1;
        &mut self.open[last]
    }

    fn open(&mut self, is_template: bool, ends: Before) {
        self.level().tokens += 1;
        self.before += self.level().tokens;
        self.open.push(Level { tokens: 0, is_template, ends });
        self.is_now(Before::Operator);
    }

    /// Whether a template goes on behind it.
    fn close(&mut self) -> bool {
        let closed = if self.open.len() > 1 { self.open.pop() } else { None };
        self.is_now(closed.as_ref().map_or(Before::Doubtful, |closed| closed.ends));
        let Some(closed) = closed else { return false };
        self.before = self.before.saturating_sub(self.level().tokens);
        closed.is_template
    }

    fn skip_line(&mut self) {
        while self.at < self.bytes.len() && !is_line_end(&self.bytes[self.at..]) {
            self.at += 1;
        }
    }

    fn skip_comment(&mut self) {
        while self.at < self.bytes.len() {
            if self.bytes[self.at..].starts_with(b"*/") {
                self.at += 2;
                return;
            }
            self.is_new_line |= is_line_end(&self.bytes[self.at..]);
            self.at += 1;
        }
    }

    fn skip_text(&mut self, quote: u8) {
        while let Some(byte) = self.peek() {
            self.at += 1;
            match byte {
                b'\\' => self.skip_escaped(),
                b'\n' | b'\r' => return,
                _ if byte == quote => return,
                _ => {}
            }
        }
    }

    /// A text goes on behind a line end that is escaped, and that may have two letters.
    fn skip_escaped(&mut self) {
        self.at += if self.bytes[self.at.min(self.bytes.len())..].starts_with(b"\r\n") { 2 } else { 1 };
    }

    /// The text of a template up to its end or to the next `${`.
    fn template(&mut self) {
        while let Some(byte) = self.peek() {
            self.at += 1;
            match byte {
                b'\\' => self.at += 1,
                b'`' => break,
                b'$' if self.peek() == Some(b'{') => {
                    self.at += 1;
                    return self.open(true, Before::Value);
                }
                _ => {}
            }
        }
        self.is_now(Before::Value);
    }

    fn skip_pattern(&mut self) {
        let mut is_in_class = false;
        while let Some(byte) = self.peek() {
            self.at += 1;
            match byte {
                b'\\' => self.at += 1,
                b'[' => is_in_class = true,
                b']' => is_in_class = false,
                b'/' if !is_in_class => return,
                b'\n' | b'\r' => return,
                _ => {}
            }
        }
    }
}

/// Whether a line ends here, also by one of the two separators of Unicode.
fn is_line_end(rest: &[u8]) -> bool {
    matches!(rest, [b'\n' | b'\r', ..] | [0xe2, 0x80, 0xa8 | 0xa9, ..])
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'$' || byte >= 0x80
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deep_sources_are_found_whatever_they_nest() {
        let deep = [
            format!("{}1{}", "(".repeat(10_000), ")".repeat(10_000)),
            format!("x = {}{};", "[".repeat(10_000), "]".repeat(10_000)),
            format!("{}a", "!".repeat(30_000)),
            format!("a{}", "+a".repeat(20_000)),
            format!("a{}", "=>a=>a".repeat(10_000)),
            "if(a)".repeat(10_000),
            "new ".repeat(30_000),
            "`${".repeat(5_000),
            format!("const a = \")))\"; {}", "(\")\"+".repeat(5_000)),
        ];
        for source in deep {
            assert!(stack_for(&source).is_err(), "{}", &source[..40]);
        }
    }

    #[test]
    fn nothing_is_hidden_behind_a_slash_a_quote_or_a_line_end() {
        let deep = format!("{}1{}", "(".repeat(2_000), ")".repeat(2_000));
        let before_division = [
            "b++ /",
            "b-- /",
            "b! /",
            "b /**/ /",
            "b++/**/ /",
            "a.return /",
            "a?.if /",
            "1. /",
            "f(x)! /",
            "a[0]++ /",
            "a<b> /",
            "`` /",
            "of /",
            "obj.if(x) /",
            "await (x) /",
            "({}) /",
            "{} /",
        ];
        for start in before_division {
            let source = format!("export const a = {start}{deep}/1;");
            assert!(stack_for(&source).is_err(), "{start}");
        }
        let before_pattern = [
            "return /\"/;",
            "if (a) /\"/;",
            "while (a) !/\"/;",
            "} /\"/;",
            "let x\n/\"/;",
            "import \"x\"\n/\"/;",
            "break\n/\"/;",
            "x = y\n++/\"/.z;",
            "for await (a of b) /\"/;",
            "a => /\"/;",
            "typeof /\"/;",
            "let x /*\n*/ /\"/;",
            "do x; while (y) /\"/;",
            "/`/;",
            "case /'/:",
            "return\u{a0}/\"/;",
            "return\u{feff}/\"/;",
            "return\u{b}/\"/;",
            "#!`\n",
            "// a\r",
            "// a\u{2028}",
            "\"a\\\r\nb\";",
            "\"\\\\\";",
            "'\u{2028}';",
        ];
        for start in before_pattern {
            let source = format!("{start}{deep}");
            assert!(stack_for(&source).is_err(), "{start:?}");
        }
    }

    #[test]
    fn honest_sources_pass() {
        let function =
            "export function a(b: string) {\n  return b.replace(/[\"'`(]/g, '(') + `(${b}(`; // ((\n}\n";
        let counts = "for (let i = 0; i < n; i++) { sum += a[i]! / (b + c) / 2; x = i++ / (n - 1); // (half\n}\n/* ( */ const half = a\n  / (b + c);\n";
        let patterns =
            "const find = (x: string) => /[(\"']/.test(x) || !/\\(/.test(x); if (y) { return /\"/; }\n}\n";
        for source in [
            function.repeat(2_000),
            "const a = [1, 2, 3];\n".repeat(20_000),
            "a(\"(((\");".repeat(9_000),
            counts.repeat(2_000),
            patterns.repeat(2_000),
        ] {
            assert!(stack_for(&source).is_ok(), "{:?} {}", stack_for(&source), &source[..20]);
        }
    }
}
