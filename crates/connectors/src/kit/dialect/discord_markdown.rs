//! Discord's Markdown: what must not be read as such is put into a block of code, or escaped sign by sign.

const FENCE: &str = "```";

/// The text as Discord shows it unchanged. A block cannot hold the fence that ends it; such a text is escaped instead.
pub(super) fn verbatim(text: &str, whole: &str) -> String {
    if whole.contains(FENCE) { escaped(text) } else { format!("{FENCE}\n{text}\n{FENCE}") }
}

/// A backslash before a sign makes it that sign and nothing else.
pub(super) fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len() * 2);
    for letter in text.chars() {
        if letter.is_ascii_punctuation() {
            safe.push('\\');
        }
        safe.push(letter);
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_fenced_unless_it_has_a_fence_itself() {
        assert_eq!(verbatim("a *b* `c`", "a *b* `c`"), "```\na *b* `c`\n```");
        assert_eq!(verbatim("a *b", "a *b* ```"), "a \\*b");
        assert_eq!(escaped("<@1> ```x"), "\\<\\@1\\> \\`\\`\\`x");
    }
}
