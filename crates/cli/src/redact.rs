//! The last thing before a log line is written: known secrets and what looks like one become `***`.

use crate::environment::Environment;
use secrecy::{ExposeSecret, SecretString};
use std::borrow::Cow;
use std::io::{self, Write};
use std::sync::Arc;

const MASK: &str = "***";
/// Shorter values are words, not secrets; hiding them would make a log unreadable.
const SECRET_BYTES_MIN: usize = 8;
/// Beginnings of tokens that are in use, and the shortest whole token of that kind.
const TOKEN_BEGINNINGS: [(&str, usize); 14] = [
    ("cxk_", 20),
    ("cxt_", 20),
    ("apr_", 20),
    ("sk-", 16),
    ("sk_", 16),
    ("pk_", 16),
    ("ghp_", 16),
    ("gho_", 16),
    ("github_pat_", 20),
    ("xoxb-", 16),
    ("xoxp-", 16),
    ("AIza", 20),
    ("AKIA", 16),
    ("eyJ", 30),
];

/// What must not be written.
#[derive(Clone, Default)]
pub(crate) struct Redactor {
    secrets: Arc<[SecretString]>,
}

impl Redactor {
    pub(crate) fn new(secrets: impl IntoIterator<Item = SecretString>) -> Self {
        let mut secrets: Vec<SecretString> =
            secrets.into_iter().filter(|secret| secret.expose_secret().len() >= SECRET_BYTES_MIN).collect();
        // The longest first: a secret that begins with another must not leave its tail behind.
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.expose_secret().len()));
        Self { secrets: secrets.into() }
    }

    pub(crate) fn clean<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let mut text = Cow::Borrowed(text);
        for secret in self.secrets.iter() {
            if text.contains(secret.expose_secret()) {
                text = Cow::Owned(text.replace(secret.expose_secret(), MASK));
            }
        }
        match mask_tokens(&text) {
            Some(masked) => Cow::Owned(masked),
            None => text,
        }
    }
}

/// Every variable whose name says that it holds a secret.
pub(crate) fn secrets_of(environment: &Environment) -> impl Iterator<Item = SecretString> {
    environment
        .iter()
        .filter(|(name, _)| {
            let name = name.to_ascii_uppercase();
            ["KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD"].iter().any(|ending| name.ends_with(ending))
        })
        .map(|(_, value)| SecretString::from(value))
}

/// The text with token-like words masked; `None` when there are none.
fn mask_tokens(text: &str) -> Option<String> {
    let mut masked = String::new();
    let mut copied = 0;
    let mut after_bearer = false;
    for (start, word) in words(text) {
        if after_bearer || looks_like_token(word) {
            masked.push_str(&text[copied..start]);
            masked.push_str(MASK);
            copied = start + word.len();
        }
        after_bearer = word.eq_ignore_ascii_case("bearer");
    }
    if copied == 0 {
        return None;
    }
    masked.push_str(&text[copied..]);
    Some(masked)
}

fn looks_like_token(word: &str) -> bool {
    TOKEN_BEGINNINGS
        .iter()
        .any(|(beginning, bytes_min)| word.starts_with(beginning) && word.len() >= *bytes_min)
}

/// Runs of letters that a token can be made of, with where they start.
fn words(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let is_part =
        |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-' | '.' | '+' | '~');
    text.split(move |letter| !is_part(letter))
        .filter(|word| !word.is_empty())
        .map(move |word| (word.as_ptr() as usize - text.as_ptr() as usize, word))
}

/// A sink that cleans every line before it lets it through.
pub(crate) struct RedactingWriter<W> {
    redactor: Redactor,
    sink: W,
}

impl<W: Write> RedactingWriter<W> {
    pub(crate) fn new(redactor: Redactor, sink: W) -> Self {
        Self { redactor, sink }
    }
}

impl<W: Write> Write for RedactingWriter<W> {
    /// The log hands over whole lines, so a secret is never split between two writes.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(bytes);
        self.sink.write_all(self.redactor.clean(&text).as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.sink.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        let redactor =
            Redactor::new(["hunter2hunter2", "hunter2hunter2-and-more", "short"].map(SecretString::from));
        let mut seen = Vec::new();
        RedactingWriter::new(redactor, &mut seen).write_all(text.as_bytes()).unwrap();
        assert_eq!(String::from_utf8(seen).unwrap(), expected);
    }

    #[test]
    fn secrets_and_tokens_never_reach_the_sink() {
        check("the key is hunter2hunter2.\n", "the key is ***.\n");
        check("hunter2hunter2-and-more", "***");
        check("a short word stays", "a short word stays");
        check("Authorization: Bearer abc.def", "Authorization: Bearer ***");
        check("key=sk-proj-0123456789abcdef, next", "key=***, next");
        check("?key=AIzaSyA0123456789abcdef&x=1", "?key=***&x=1");
        check("risk-averse task", "risk-averse task");
        check("evt_01J00000000000000000000000 done", "evt_01J00000000000000000000000 done");
    }

    #[test]
    fn variables_that_name_a_secret_are_known() {
        let environment = Environment::from_pairs([
            ("OPENAI_API_KEY", "value-one"),
            ("HOME", "/home/me"),
            ("db_password", "value-two"),
        ]);
        let secrets: Vec<String> =
            secrets_of(&environment).map(|secret| secret.expose_secret().to_owned()).collect();
        assert_eq!(secrets, ["value-one", "value-two"]);
    }
}
