//! Content lines of an iCalendar file: unfolded, numbered, taken apart.

/// `NAME;PARAMETER=value:value`, with the number of its first line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ContentLine {
    pub(super) number: usize,
    /// In upper case.
    pub(super) name: String,
    /// Names in upper case.
    parameters: Vec<(String, String)>,
    pub(super) value: String,
}

/// What is wrong with a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LineFault {
    pub(super) line: usize,
    pub(super) text: String,
}

/// A value longer than this (an attached picture) is cut: nobody reads it here.
const VALUE_BYTES_MAX: usize = 64 * 1024;

impl ContentLine {
    pub(super) fn parameter(&self, name: &str) -> Option<&str> {
        self.parameters.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub(super) fn fault(&self, text: impl Into<String>) -> LineFault {
        LineFault { line: self.number, text: text.into() }
    }
}

/// The lines of a file. A line that starts with a space goes on with the one before it.
pub(super) fn content_lines(text: &str) -> impl Iterator<Item = Result<ContentLine, LineFault>> + '_ {
    let mut lines = text.trim_start_matches('\u{feff}').lines().zip(1..).peekable();
    std::iter::from_fn(move || {
        loop {
            let (first, number) = lines.next()?;
            let mut whole = first.trim_end_matches('\r').to_owned();
            while let Some((more, _)) = lines.next_if(|(line, _)| line.starts_with([' ', '\t'])) {
                if whole.len() < VALUE_BYTES_MAX {
                    whole.push_str(more[1..].trim_end_matches('\r'));
                }
            }
            if !whole.trim().is_empty() {
                return Some(parse(&whole, number));
            }
        }
    })
}

fn parse(whole: &str, number: usize) -> Result<ContentLine, LineFault> {
    let fault = |text: &str| LineFault { line: number, text: format!("{text}: {:?}", shown(whole)) };
    let name_end = whole.find([':', ';']).ok_or_else(|| fault("this line has no name and value"))?;
    let name = &whole[..name_end];
    let is_name =
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte));
    if !is_name {
        return Err(fault("this line starts with no name"));
    }
    let mut parameters = Vec::new();
    let mut rest = &whole[name_end..];
    while let Some(parameter) = rest.strip_prefix(';') {
        let end = unquoted(parameter, [':', ';']).ok_or_else(|| fault("this line has no value"))?;
        let (name, value) = parameter[..end].split_once('=').unwrap_or((&parameter[..end], ""));
        parameters.push((name.to_ascii_uppercase(), value.trim_matches('"').to_owned()));
        rest = &parameter[end..];
    }
    let value = rest.strip_prefix(':').unwrap_or(rest);
    Ok(ContentLine { number, name: name.to_ascii_uppercase(), parameters, value: value.to_owned() })
}

/// Where one of the letters stands outside of double quotes.
fn unquoted(text: &str, letters: [char; 2]) -> Option<usize> {
    let mut is_quoted = false;
    text.char_indices().find_map(|(offset, letter)| {
        is_quoted ^= letter == '"';
        (!is_quoted && letters.contains(&letter)).then_some(offset)
    })
}

/// The beginning of a text, for messages.
pub(super) fn shown(text: &str) -> String {
    const SHOWN_CHARS: usize = 60;
    let start: String = text.chars().take(SHOWN_CHARS).collect();
    if start.len() < text.len() { format!("{start}…") } else { start }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<Result<(usize, String, String), String>> {
        let plain = |line: ContentLine| (line.number, line.name, line.value);
        let fault = |fault: LineFault| format!("{}: {}", fault.line, fault.text);
        content_lines(text).map(|line| line.map(plain).map_err(fault)).collect()
    }

    #[test]
    fn folded_lines_are_one_line_with_the_number_of_the_first() {
        assert_eq!(
            lines("\u{feff}summary:One\r\n  and\r\n\t two\r\n\r\nUID:x\n"),
            [Ok((1, "SUMMARY".into(), "One and two".into())), Ok((5, "UID".into(), "x".into()))]
        );
    }

    #[test]
    fn parameters_may_be_quoted() {
        let line = content_lines(r#"DTSTART;TZID="a:b;c";VALUE=DATE:20260610"#).next().unwrap().unwrap();
        assert_eq!((line.parameter("TZID"), line.parameter("VALUE")), (Some("a:b;c"), Some("DATE")));
        assert_eq!(line.value, "20260610");
    }

    #[test]
    fn a_bad_line_is_named_with_its_number() {
        assert_eq!(
            lines("A:1\nnonsense\n;X:1\nB;C=\"open:1"),
            [
                Ok((1, "A".into(), "1".into())),
                Err("2: this line has no name and value: \"nonsense\"".into()),
                Err("3: this line starts with no name: \";X:1\"".into()),
                Err("4: this line has no value: \"B;C=\\\"open:1\"".into()),
            ]
        );
    }
}
