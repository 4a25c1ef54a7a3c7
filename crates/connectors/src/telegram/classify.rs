//! What a refusal of the Bot API means for us.

use super::bot::AnswerParameters;
use crate::kit::PlatformError;

/// A flood wait that does not say how long.
const RETRY_SECONDS: u32 = 5;

pub(super) fn classify(code: u16, description: &str, parameters: &AnswerParameters) -> PlatformError {
    if let Some(chat) = parameters.migrate_to_chat_id {
        return PlatformError::Moved { to: chat.to_string() };
    }
    let reason = || format!("Telegram answered {code}: {description}");
    match code {
        429 => PlatformError::RetryAfter { seconds: parameters.retry_after.unwrap_or(RETRY_SECONDS).max(1) },
        409 => PlatformError::Conflict(format!(
            "{}. Either a webhook is set for this bot (deleteWebhook removes it) or another program polls with the same token",
            reason()
        )),
        401 => PlatformError::Misconfigured(
            "Telegram refuses the bot token; check connectors.telegram.token".to_owned(),
        ),
        400 if description.to_ascii_lowercase().contains("can't parse entities") => {
            PlatformError::CannotFormat(reason())
        }
        413 => PlatformError::TooBig,
        // 403, "chat not found", a closed topic: the same request meets the same answer.
        400..=499 => PlatformError::Permanent(reason()),
        _ => PlatformError::Transient(reason()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_refusal_has_a_meaning() {
        let none = AnswerParameters::default;
        let kind = |code, description: &str, parameters| match classify(code, description, &parameters) {
            PlatformError::Transient(_) => "transient",
            PlatformError::RetryAfter { seconds: 7 } => "wait 7",
            PlatformError::RetryAfter { .. } => "wait",
            PlatformError::Permanent(_) => "permanent",
            PlatformError::CannotFormat(_) => "format",
            PlatformError::Moved { .. } => "moved",
            PlatformError::TooBig => "too big",
            PlatformError::Conflict(_) => "conflict",
            PlatformError::Misconfigured(_) => "misconfigured",
        };
        assert_eq!(kind(429, "", AnswerParameters { retry_after: Some(7), ..none() }), "wait 7");
        assert_eq!(kind(429, "", none()), "wait");
        assert_eq!(kind(400, "", AnswerParameters { migrate_to_chat_id: Some(-5), ..none() }), "moved");
        assert_eq!(kind(400, "Bad Request: can't parse entities: x", none()), "format");
        assert_eq!(kind(400, "Bad Request: chat not found", none()), "permanent");
        assert_eq!(kind(403, "Forbidden: bot was blocked by the user", none()), "permanent");
        assert_eq!(kind(409, "Conflict", none()), "conflict");
        assert_eq!(kind(401, "Unauthorized", none()), "misconfigured");
        assert_eq!(kind(502, "Bad Gateway", none()), "transient");
        assert_eq!(kind(413, "", none()), "too big");
    }
}
