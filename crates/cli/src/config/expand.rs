//! `${VAR}` in the strings of the file; `$${` stands for a plain `${`.

use crate::environment::Environment;

/// Why a string could not be expanded, as a sentence part after the key's name.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ExpandError {
    Unset(String),
    Unclosed,
    BadName(String),
}

/// A string after expansion.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Expanded {
    pub(crate) text: String,
    /// Whether a variable took part, so that `"${PORT}"` may also be a number.
    pub(crate) from_variable: bool,
}

pub(crate) fn expand(text: &str, environment: &Environment) -> Result<Expanded, ExpandError> {
    let mut expanded = Expanded { text: String::with_capacity(text.len()), from_variable: false };
    let mut rest = text;
    while let Some(start) = rest.find("${") {
        if rest[..start].ends_with('$') {
            expanded.text.push_str(&rest[..start - 1]);
            expanded.text.push_str("${");
            rest = &rest[start + 2..];
            continue;
        }
        let end = rest[start..].find('}').ok_or(ExpandError::Unclosed)? + start;
        let name = &rest[start + 2..end];
        if !is_name(name) {
            return Err(ExpandError::BadName(name.chars().take(40).collect()));
        }
        let value = environment.get(name).ok_or_else(|| ExpandError::Unset(name.to_owned()))?;
        expanded.text.push_str(&rest[..start]);
        expanded.text.push_str(value);
        expanded.from_variable = true;
        rest = &rest[end + 1..];
    }
    expanded.text.push_str(rest);
    Ok(expanded)
}

fn is_name(name: &str) -> bool {
    let mut letters = name.chars();
    letters.next().is_some_and(|first| first.is_ascii_alphabetic() || first == '_')
        && letters.all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        let environment = Environment::from_pairs([("A", "one"), ("B_2", "${A}")]);
        let seen = match expand(text, &environment) {
            Ok(expanded) => expanded.text,
            Err(error) => format!("{error:?}"),
        };
        assert_eq!(seen, expected);
    }

    #[test]
    fn variables_are_put_in_once_and_escapes_stay() {
        check("plain $ text", "plain $ text");
        check("${A}-${A}", "one-one");
        check("${B_2}", "${A}");
        check("$${A}", "${A}");
        check("$$${A}", "$${A}");
        check("${MISSING}", "Unset(\"MISSING\")");
        check("${A", "Unclosed");
        check("${A B}", "BadName(\"A B\")");
        check("${}", "BadName(\"\")");
    }
}
