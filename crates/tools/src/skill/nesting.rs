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
    let mut scan = Scan { bytes: source.as_bytes(), at: 0, open: vec![Level::default()], before: 0 };
    let mut deepest = 0;
    while let Some(depth) = scan.next() {
        if depth > CHAIN_MAX || scan.open.len() > BRACKETS_MAX {
            return Err(scan.at);
        }
        deepest = deepest.max(depth);
    }
    Ok((deepest * LEVEL_BYTES * 2).clamp(STACK_MIN, STACK_MAX))
}

/// An open bracket, and the tokens since the last semicolon or comma in it.
#[derive(Default)]
struct Level {
    tokens: usize,
    is_template: bool,
}

struct Scan<'a> {
    bytes: &'a [u8],
    at: usize,
    open: Vec<Level>,
    /// The tokens of all levels but the last.
    before: usize,
}

impl Scan<'_> {
    /// Reads one token and gives the depth that it can have at most.
    fn next(&mut self) -> Option<usize> {
        let byte = *self.bytes.get(self.at)?;
        let start = self.at;
        self.at += 1;
        match byte {
            b' ' | b'\t' | b'\r' | b'\n' => {}
            b'/' if self.peek() == Some(b'/') => self.skip_past(b"\n"),
            b'/' if self.peek() == Some(b'*') => {
                self.at += 1;
                self.skip_past(b"*/");
            }
            b'/' if self.may_begin_a_pattern(start) => self.skip_pattern(),
            b'"' | b'\'' => self.skip_text(byte),
            b'`' => self.template(),
            b'(' | b'[' | b'{' => self.open(false),
            b')' | b']' => drop(self.close()),
            b'}' => {
                if self.close() {
                    self.template();
                }
            }
            b';' | b',' => self.level().tokens = 0,
            _ if is_word(byte) => {
                while self.peek().is_some_and(is_word) {
                    self.at += 1;
                }
                self.level().tokens += 1;
            }
            _ => self.level().tokens += 1,
        }
        Some(self.before + self.open.last().map_or(0, |level| level.tokens))
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn level(&mut self) -> &mut Level {
        if self.open.is_empty() {
            self.open.push(Level::default());
        }
        let last = self.open.len() - 1;
        &mut self.open[last]
    }

    fn open(&mut self, is_template: bool) {
        self.level().tokens += 1;
        self.before += self.level().tokens;
        self.open.push(Level { tokens: 0, is_template });
    }

    /// Whether a template goes on behind it.
    fn close(&mut self) -> bool {
        let closed = if self.open.len() > 1 { self.open.pop() } else { None };
        let Some(closed) = closed else { return false };
        self.before = self.before.saturating_sub(self.level().tokens);
        closed.is_template
    }

    fn skip_past(&mut self, end: &[u8]) {
        while self.at < self.bytes.len() {
            if self.bytes[self.at..].starts_with(end) {
                self.at += end.len();
                return;
            }
            self.at += 1;
        }
    }

    fn skip_text(&mut self, quote: u8) {
        while let Some(byte) = self.peek() {
            self.at += 1;
            match byte {
                b'\\' => self.at += 1,
                b'\n' => return,
                _ if byte == quote => return,
                _ => {}
            }
        }
    }

    /// The text of a template up to its end or to the next `${`.
    fn template(&mut self) {
        while let Some(byte) = self.peek() {
            self.at += 1;
            match byte {
                b'\\' => self.at += 1,
                b'`' => return,
                b'$' if self.peek() == Some(b'{') => {
                    self.at += 1;
                    return self.open(true);
                }
                _ => {}
            }
        }
    }

    /// A slash divides after a value, and begins a pattern elsewhere.
    fn may_begin_a_pattern(&self, slash: usize) -> bool {
        let before = self.bytes[..slash].iter().rev().find(|byte| !byte.is_ascii_whitespace());
        !before.is_some_and(|byte| is_word(*byte) || b")]}\"'`".contains(byte))
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
                b'\n' => return,
                _ => {}
            }
        }
    }
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
    fn honest_sources_pass() {
        let function =
            "export function a(b: string) {\n  return b.replace(/[\"'`(]/g, '(') + `(${b}(`; // ((\n}\n";
        for source in
            [function.repeat(2_000), "const a = [1, 2, 3];\n".repeat(20_000), "a(\"(((\");".repeat(9_000)]
        {
            assert!(stack_for(&source).is_ok(), "{:?} {}", stack_for(&source), &source[..20]);
        }
    }
}
