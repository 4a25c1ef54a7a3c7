//! What became of a posted message: it arrived, it comes again, or it never will.

use http::StatusCode;
use std::time::Duration;

/// What an answer, or none, means for a message. The words hold nothing of the address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    Delivered,
    Again { error: String, after: Option<Duration> },
    Never { error: String },
}

/// What the receiver's status means (D72).
pub(crate) fn judge(status: StatusCode, retry_after: Option<Duration>) -> Outcome {
    let error = format!("the receiver answered {status}");
    match status {
        _ if status.is_success() => Outcome::Delivered,
        StatusCode::REQUEST_TIMEOUT
        | StatusCode::CONFLICT
        | StatusCode::TOO_EARLY
        | StatusCode::TOO_MANY_REQUESTS => Outcome::Again { error, after: retry_after },
        _ if status.is_client_error() => Outcome::Never { error },
        _ if status.is_redirection() => {
            Outcome::Again { error: format!("{error}; redirects are not followed"), after: None }
        }
        _ => Outcome::Again { error, after: retry_after },
    }
}

/// No answer at all.
pub(crate) fn unanswered(error: &reqwest::Error, timeout: Duration) -> Outcome {
    let error = if error.is_timeout() {
        format!("the receiver did not answer within {} ms", timeout.as_millis())
    } else {
        // The outer texts name the address; the innermost one says what happened.
        format!("the receiver cannot be reached: {}", innermost(error))
    };
    Outcome::Again { error, after: None }
}

fn innermost(error: &dyn std::error::Error) -> String {
    let mut inner = error;
    while let Some(source) = inner.source() {
        inner = source;
    }
    inner.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_decides_between_delivered_again_and_never() {
        let wait = Some(Duration::from_secs(7));
        let check = |status: u16, expected: &str| {
            let seen = match judge(StatusCode::from_u16(status).unwrap(), wait) {
                Outcome::Delivered => "delivered",
                Outcome::Again { after: None, .. } => "again",
                Outcome::Again { after, .. } if after == wait => "again in 7 s",
                Outcome::Again { .. } => "again at another time",
                Outcome::Never { .. } => "never",
            };
            assert_eq!(seen, expected, "{status}");
        };
        for status in [200, 201, 202, 204, 299] {
            check(status, "delivered");
        }
        for status in [408, 409, 425, 429, 500, 502, 503, 504, 599] {
            check(status, "again in 7 s");
        }
        for status in [301, 302, 307, 308] {
            check(status, "again");
        }
        for status in [400, 401, 403, 404, 405, 410, 413, 415, 422] {
            check(status, "never");
        }
    }

    #[test]
    fn the_words_say_what_the_receiver_said() {
        let gone = judge(StatusCode::GONE, None);
        assert_eq!(gone, Outcome::Never { error: "the receiver answered 410 Gone".to_owned() });
        let moved = judge(StatusCode::FOUND, None);
        let error = "the receiver answered 302 Found; redirects are not followed".to_owned();
        assert_eq!(moved, Outcome::Again { error, after: None });
    }
}
