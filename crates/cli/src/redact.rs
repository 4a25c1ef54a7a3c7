//! The last thing before a log line is written: known secrets and what looks like one become `***`.

use crate::environment::Environment;
use cortex_types::{SECRET_BYTES_MIN, SECRET_MASK, names_a_secret, without_secrets};
use secrecy::{ExposeSecret, SecretString};
use std::borrow::Cow;
use std::io::{self, Write};
use std::sync::Arc;

/// What must not be written.
#[derive(Clone, Default)]
pub(crate) struct Redactor {
    secrets: Arc<[SecretString]>,
}

impl Redactor {
    pub(crate) fn new(secrets: impl IntoIterator<Item = SecretString>) -> Self {
        let long = secrets.into_iter().filter(|secret| secret.expose_secret().len() >= SECRET_BYTES_MIN);
        let mut secrets: Vec<SecretString> = long.flat_map(as_written).collect();
        // The longest first: a secret that begins with another must not leave its tail behind.
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.expose_secret().len()));
        Self { secrets: secrets.into() }
    }

    pub(crate) fn clean<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let mut text = Cow::Borrowed(text);
        for secret in self.secrets.iter() {
            if text.contains(secret.expose_secret()) {
                text = Cow::Owned(text.replace(secret.expose_secret(), SECRET_MASK));
            }
        }
        match without_secrets(&text) {
            Cow::Owned(masked) => Cow::Owned(masked),
            Cow::Borrowed(_) => text,
        }
    }
}

/// A secret as it is, and as a quoted field of a log spells it.
fn as_written(secret: SecretString) -> Vec<SecretString> {
    let spelled = SecretString::from(secret.expose_secret().escape_debug().to_string());
    if spelled.expose_secret() == secret.expose_secret() { vec![secret] } else { vec![secret, spelled] }
}

/// Every variable whose name says that it holds a secret.
pub(crate) fn secrets_of(environment: &Environment) -> impl Iterator<Item = SecretString> {
    environment.iter().filter(|(name, _)| names_a_secret(name)).map(|(_, value)| SecretString::from(value))
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
        let redactor = Redactor::new(
            ["hunter2hunter2", "hunter2hunter2-and-more", "quo\"ted secret", "short"].map(SecretString::from),
        );
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
        check("text=\"a quo\\\"ted secret\"", "text=\"a ***\"");
        check("risk-averse task", "risk-averse task");
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
