//! What one call of a skill may fetch and log. The engine refuses more; its keeper counts too, since a skill may get out of its
//! engine and say what it likes.

use super::wire::FromEngine;

pub(super) const FETCHES_MAX: u32 = 100;
pub(super) const FETCHES_AT_ONCE_MAX: usize = 16;
pub(super) const REQUEST_BYTES_MAX: usize = 1024 * 1024;
pub(super) const LOG_LINES_MAX: u32 = 500;
pub(super) const LOG_CHARS_MAX: usize = 4_000;

/// Lines that an engine may add in its own name, beside those of its skill.
const OWN_LINES_MAX: u32 = 8;

/// What a call has asked for so far.
#[derive(Debug, Default)]
pub(super) struct Tally {
    fetches: u32,
    open: usize,
    log_lines: u32,
}

/// What was too much.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum OverLimits {
    #[error("{FETCHES_MAX} fetches in a call, or {FETCHES_AT_ONCE_MAX} at once")]
    Fetches,
    #[error("{REQUEST_BYTES_MAX} bytes of a request")]
    Request,
    #[error("{LOG_LINES_MAX} lines of {LOG_CHARS_MAX} characters of log in a call")]
    Log,
}

impl Tally {
    pub(super) fn count(&mut self, message: &FromEngine) -> Result<(), OverLimits> {
        match message {
            FromEngine::Fetch { request, .. } => {
                self.fetches += 1;
                self.open += 1;
                if self.fetches > FETCHES_MAX || self.open > FETCHES_AT_ONCE_MAX {
                    return Err(OverLimits::Fetches);
                }
                let is_large = request.body.as_ref().is_some_and(|body| body.0.len() > REQUEST_BYTES_MAX);
                if is_large { Err(OverLimits::Request) } else { Ok(()) }
            }
            FromEngine::Log { text, .. } => {
                self.log_lines += 1;
                let is_long = text.chars().nth(LOG_CHARS_MAX).is_some();
                if self.log_lines > LOG_LINES_MAX + OWN_LINES_MAX || is_long {
                    Err(OverLimits::Log)
                } else {
                    Ok(())
                }
            }
            FromEngine::Loaded(_) | FromEngine::Refused(_) | FromEngine::Ended(_) => Ok(()),
        }
    }

    /// A fetch came to its end.
    pub(super) fn answered(&mut self) {
        self.open = self.open.saturating_sub(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::skill::fetch::{Bytes, SkillRequest};
    use crate::skill::wire::LogLevel;

    fn fetch(bytes: usize) -> FromEngine {
        let request = SkillRequest {
            method: "GET".to_owned(),
            url: "https://a.example/".to_owned(),
            headers: Vec::new(),
            body: Some(Bytes(vec![0; bytes])),
        };
        FromEngine::Fetch { op: 1, request }
    }

    fn line(letters: usize) -> FromEngine {
        FromEngine::Log { level: LogLevel::Info, text: "é".repeat(letters) }
    }

    #[test]
    fn what_an_engine_would_refuse_is_counted_outside_of_it_too() {
        let mut tally = Tally::default();
        for _ in 0..FETCHES_AT_ONCE_MAX {
            assert_eq!(tally.count(&fetch(0)), Ok(()));
        }
        assert_eq!(tally.count(&fetch(0)), Err(OverLimits::Fetches), "too many at once");

        let mut tally = Tally::default();
        for _ in 0..FETCHES_MAX {
            assert_eq!(tally.count(&fetch(REQUEST_BYTES_MAX)), Ok(()));
            tally.answered();
        }
        assert_eq!(tally.count(&fetch(0)), Err(OverLimits::Fetches), "too many in all");
        assert_eq!(Tally::default().count(&fetch(REQUEST_BYTES_MAX + 1)), Err(OverLimits::Request));

        let mut tally = Tally::default();
        for _ in 0..LOG_LINES_MAX + OWN_LINES_MAX {
            assert_eq!(tally.count(&line(LOG_CHARS_MAX)), Ok(()));
        }
        assert_eq!(tally.count(&line(1)), Err(OverLimits::Log));
        assert_eq!(Tally::default().count(&line(LOG_CHARS_MAX + 1)), Err(OverLimits::Log));
    }
}
