//! Views of a Rust file: its code without comments and string contents, its comments, its strings, its functions.

use std::ops::Range;

/// What the rules look at. `code` has the length and the lines of the file, with comments and string contents blank.
pub(super) struct RustSource {
    pub(super) code: String,
    /// Line and text, with the slashes.
    pub(super) comments: Vec<(usize, String)>,
    /// Line and content of each string literal.
    pub(super) strings: Vec<(usize, String)>,
}

/// A function with a body.
pub(super) struct Function {
    pub(super) name: String,
    pub(super) line: usize,
    pub(super) is_test: bool,
    pub(super) body: String,
}

impl RustSource {
    pub(super) fn read(text: &str) -> Self {
        let mut reader =
            Reader { text, code: text.as_bytes().to_vec(), comments: Vec::new(), strings: Vec::new() };
        reader.run();
        let code = String::from_utf8(reader.code).expect("whole characters are blanked");
        Self { code, comments: reader.comments, strings: reader.strings }
    }

    /// The code without its `#[cfg(test)]` items.
    pub(super) fn shipped(&self) -> String {
        let mut code = self.code.clone();
        while let Some(start) = code.find("#[cfg(test)]") {
            let end = item_end(&code, start);
            blank(&mut code, start..end);
        }
        code
    }

    /// Strings outside of `#[cfg(test)]` items.
    pub(super) fn shipped_strings(&self) -> impl Iterator<Item = &(usize, String)> {
        let mut test_lines = Vec::new();
        let mut from = 0;
        while let Some(start) = self.code[from..].find("#[cfg(test)]").map(|offset| from + offset) {
            let end = item_end(&self.code, start);
            test_lines.push(line_of(&self.code, start)..=line_of(&self.code, end));
            from = end;
        }
        self.strings.iter().filter(move |(line, _)| !test_lines.iter().any(|lines| lines.contains(line)))
    }

    pub(super) fn functions(&self) -> Vec<Function> {
        let mut functions = Vec::new();
        for (start, name) in declared(&self.code, "fn") {
            let Some(body) = body_range(&self.code, start) else { continue };
            functions.push(Function {
                name: name.to_owned(),
                line: line_of(&self.code, start),
                is_test: has_test_attribute(&self.code[..start]),
                body: self.code[body].to_owned(),
            });
        }
        functions
    }
}

pub(super) fn line_of(text: &str, offset: usize) -> usize {
    text[..offset].matches('\n').count() + 1
}

/// Places of `word` that are not part of a longer name.
pub(super) fn words<'a>(code: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    code.match_indices(word).map(|(offset, _)| offset).filter(move |offset| {
        let before = code[..*offset].chars().next_back();
        let after = code[offset + word.len()..].chars().next();
        !before.is_some_and(is_name) && !after.is_some_and(is_name)
    })
}

/// Names that follow a keyword such as `struct`, with the place of the keyword.
pub(super) fn declared<'a>(code: &'a str, keyword: &'a str) -> impl Iterator<Item = (usize, &'a str)> + 'a {
    words(code, keyword).filter_map(move |offset| {
        let rest = code[offset + keyword.len()..].trim_start();
        let name = &rest[..rest.find(|c| !is_name(c)).unwrap_or(rest.len())];
        (!name.is_empty()).then_some((offset, name))
    })
}

pub(super) fn is_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The braces that follow `start`, unless the item ends with a `;` before any.
fn body_range(code: &str, start: usize) -> Option<Range<usize>> {
    let open = start + signature_length(&code[start..])?;
    if code.as_bytes()[open] == b';' {
        return None;
    }
    let mut depth = 0_usize;
    for (offset, byte) in code.bytes().enumerate().skip(open) {
        match byte {
            b'{' => depth += 1,
            b'}' if depth == 1 => return Some(open..offset + 1),
            b'}' => depth -= 1,
            _ => {}
        }
    }
    Some(open..code.len())
}

/// The place of the `{` or `;` that ends a signature; the one in `[u8; 4]` does not.
fn signature_length(code: &str) -> Option<usize> {
    let mut depth = 0_usize;
    for (offset, byte) in code.bytes().enumerate() {
        match byte {
            b'(' | b'[' => depth += 1,
            b')' | b']' => depth = depth.saturating_sub(1),
            b'{' | b';' if depth == 0 => return Some(offset),
            _ => {}
        }
    }
    None
}

fn item_end(code: &str, start: usize) -> usize {
    let Some(signature) = signature_length(&code[start..]) else { return code.len() };
    body_range(code, start).map_or(start + signature + 1, |body| body.end)
}

/// Whether the attributes right above a function make it a test.
fn has_test_attribute(before: &str) -> bool {
    let item_start = before.rfind(['}', ';', '{']).map_or(0, |offset| offset + 1);
    // `#[tokio::test(flavor = "…")]` and `#[test]` both end the name of the attribute with `test`.
    before[item_start..].split("#[").skip(1).any(|attribute| {
        let name = attribute.split(['(', ']', ' ']).next().unwrap_or_default();
        name == "test" || name.ends_with("::test")
    })
}

fn blank(code: &mut String, range: Range<usize>) {
    let spaces: String =
        code[range.clone()].bytes().map(|byte| if byte == b'\n' { '\n' } else { ' ' }).collect();
    code.replace_range(range, &spaces);
}

struct Reader<'a> {
    text: &'a str,
    code: Vec<u8>,
    comments: Vec<(usize, String)>,
    strings: Vec<(usize, String)>,
}

impl Reader<'_> {
    fn run(&mut self) {
        let mut at = 0;
        while at < self.text.len() {
            let rest = &self.text[at..];
            at = if rest.starts_with("//") {
                self.comment(at, at + rest.find('\n').unwrap_or(rest.len()))
            } else if rest.starts_with("/*") {
                self.comment(at, at + block_comment_length(rest))
            } else if let Some((open, close)) = string_bounds(self.text, at) {
                self.string(open, close)
            } else if rest.starts_with('\'') {
                self.character(at, at + character_length(rest))
            } else {
                at + rest.chars().next().map_or(1, char::len_utf8)
            };
        }
    }

    fn comment(&mut self, start: usize, end: usize) -> usize {
        self.comments.push((line_of(self.text, start), self.text[start..end].to_owned()));
        self.blank(start..end);
        end
    }

    fn string(&mut self, content: Range<usize>, end: usize) -> usize {
        self.strings.push((line_of(self.text, content.start), self.text[content.clone()].to_owned()));
        self.blank(content);
        end
    }

    /// A brace in a character literal must not count as a brace.
    fn character(&mut self, start: usize, end: usize) -> usize {
        self.blank(start + 1..(end - 1).max(start + 1));
        end
    }

    fn blank(&mut self, range: Range<usize>) {
        for byte in &mut self.code[range] {
            if *byte != b'\n' {
                *byte = b' ';
            }
        }
    }
}

/// The content of the string literal that starts at `at`, and where the literal ends.
fn string_bounds(text: &str, at: usize) -> Option<(Range<usize>, usize)> {
    let rest = &text[at..];
    if rest.starts_with('"') {
        let mut escaped = false;
        for (offset, byte) in rest.bytes().enumerate().skip(1) {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => return Some((at + 1..at + offset, at + offset + 1)),
                _ => {}
            }
        }
        return Some((at + 1..text.len(), text.len()));
    }
    let continues_a_name = text[..at].chars().next_back().is_some_and(is_name);
    let raw = rest.strip_prefix("br").or_else(|| rest.strip_prefix('r')).filter(|_| !continues_a_name)?;
    let hashes = raw.len() - raw.trim_start_matches('#').len();
    raw[hashes..].strip_prefix('"')?;
    let open = text.len() - raw.len() + hashes + 1;
    let closing = format!("\"{}", "#".repeat(hashes));
    let length = text[open..].find(&closing).unwrap_or(text.len() - open);
    Some((open..open + length, (open + length + closing.len()).min(text.len())))
}

fn block_comment_length(rest: &str) -> usize {
    let mut depth = 0_usize;
    let mut at = 0;
    while at < rest.len() {
        if rest[at..].starts_with("/*") {
            depth += 1;
            at += 2;
        } else if rest[at..].starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += rest[at..].chars().next().map_or(1, char::len_utf8);
        }
    }
    rest.len()
}

/// Length of a character literal, or 1 for the quote of a lifetime.
fn character_length(rest: &str) -> usize {
    let mut characters = rest.char_indices().skip(1);
    match characters.next() {
        Some((_, '\\')) => {
            let escaped = characters.next().map_or(2, |(offset, c)| offset + c.len_utf8());
            rest[escaped..].find('\'').map_or(rest.len(), |offset| escaped + offset + 1)
        }
        Some((offset, c)) if rest[offset + c.len_utf8()..].starts_with('\'') => offset + c.len_utf8() + 1,
        Some(_) | None => 1,
    }
}

#[test]
fn code_comments_and_strings_are_told_apart() {
    let source = RustSource::read(
        "let a = \"// no \\\" comment\"; // why { \nlet b = r#\"raw \"quoted\" {\"#; /* x /* y */ */ let c = ('{', 'a, '\\'', b'\\n');",
    );
    let strings: Vec<&str> = source.strings.iter().map(|(_, text)| text.as_str()).collect();
    assert_eq!(strings, ["// no \\\" comment", "raw \"quoted\" {"]);
    assert_eq!(source.comments, [(1, "// why { ".to_owned()), (2, "/* x /* y */ */".to_owned())]);
    assert!(source.code.contains("let c = (' ', 'a, '  ', b'  ');"), "{}", source.code);
    assert_eq!(source.code.matches('{').count(), 0);
}

#[test]
fn shipped_code_has_no_test_items() {
    let source = RustSource::read(
        "fn kept() { \"a\"; }\n#[cfg(test)]\nmod tests { fn cut() { \"b\"; } }\nfn also_kept() {}\n#[cfg(test)]\nmod more;\n",
    );
    assert!(source.shipped().contains("also_kept") && !source.shipped().contains("cut"));
    assert!(!source.shipped().contains("more"));
    assert_eq!(source.shipped_strings().map(|(_, text)| text.as_str()).collect::<Vec<_>>(), ["a"]);
}

#[test]
fn functions_know_whether_they_are_tests() {
    let source = RustSource::read(
        "fn plain() -> [u8; 4] { one() }\n#[tokio::test(flavor = \"x\")]\nasync fn a_test() { two() }\n",
    );
    let found: Vec<_> = source.functions().into_iter().map(|f| (f.name, f.line, f.is_test, f.body)).collect();
    assert_eq!(found[0], ("plain".to_owned(), 1, false, "{ one() }".to_owned()));
    assert_eq!(found[1], ("a_test".to_owned(), 3, true, "{ two() }".to_owned()));
}
