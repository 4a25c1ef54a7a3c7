//! Tokens of questions: made of a secret of the home and the question's id whenever a message is handed out, so that no
//! row, backup or log ever holds one.

use cortex_brain::Question;
use cortex_types::{ApprovalId, PromptButton, PromptPayload};
use hmac::digest::KeyInit;
use hmac::{Hmac, Mac};
use sha2::{Digest, Sha256};
use std::fmt;
use ulid::Ulid;

/// The words that a button ends with; a stored button is nothing else.
const APPROVE: &str = "approve";
const DENY: &str = "deny";

/// What a message that asks carries, as it is stored: buttons without a token.
pub(crate) fn stored_payload(approval_id: ApprovalId, question: &Question) -> PromptPayload {
    let button = |label: &str, data: &str| PromptButton { label: label.to_owned(), data: data.to_owned() };
    PromptPayload {
        approval_id,
        question: question.words.clone(),
        verbatim: question.verbatim.clone(),
        preview_chars: question.preview_chars,
        buttons: vec![button("Approve", APPROVE), button("Deny", DENY)],
    }
}

/// What tokens are made with.
#[derive(Clone)]
pub struct TokenKey([u8; 64]);

impl fmt::Debug for TokenKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenKey(…)")
    }
}

impl TokenKey {
    /// Of a secret that is kept beside the database, not in it.
    pub fn new(secret: &[u8]) -> Self {
        let mut key = [0; 64];
        key[..32].copy_from_slice(&Sha256::digest(secret));
        Self(key)
    }

    /// One that ends with this process: what was handed out before still counts, and what was not is asked for at the
    /// command line.
    pub fn fresh() -> Self {
        Self(rand::random())
    }

    /// 128 bits; with `:approve` it fits the 64 bytes of a Telegram button.
    pub(crate) fn token_of(&self, question: &ApprovalId) -> String {
        let mac = <Hmac<Sha256> as KeyInit>::new(&self.0.into());
        let bytes = mac.chain_update(question.as_str()).finalize().into_bytes();
        let mut secret = [0; 16];
        secret.copy_from_slice(&bytes[..16]);
        format!("apr_{}", Ulid::from(u128::from_be_bytes(secret)))
    }

    /// A payload as it leaves: the buttons of a question carry its token. Those of an older version carry it already.
    pub(crate) fn handed_out(&self, payload_json: Option<String>) -> Option<String> {
        let stored = payload_json?;
        let Ok(mut payload) = serde_json::from_str::<PromptPayload>(&stored) else { return Some(stored) };
        let token = self.token_of(&payload.approval_id);
        for button in &mut payload.buttons {
            if [APPROVE, DENY].contains(&button.data.as_str()) {
                button.data = format!("{token}:{}", button.data);
            }
        }
        Some(serde_json::to_string(&payload).unwrap_or(stored))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_made_of_the_secret_and_the_question() {
        let id: ApprovalId = "apv_01J00000000000000000000000".parse().unwrap();
        let other: ApprovalId = "apv_01J00000000000000000000001".parse().unwrap();
        let (key, foreign) = (TokenKey::new(b"a secret"), TokenKey::new(b"another"));
        let token = key.token_of(&id);
        assert_eq!((token.len(), token.starts_with("apr_")), (30, true), "{token}");
        assert_eq!(token, TokenKey::new(b"a secret").token_of(&id), "the same after a restart");
        assert!(token != foreign.token_of(&id) && token != key.token_of(&other));
        let stored = |data: &str| {
            format!(
                r#"{{"approvalId":"{id}","question":"","verbatim":"","buttons":[{{"label":"Yes","data":"{data}"}}]}}"#
            )
        };
        assert_eq!(key.handed_out(Some(stored(APPROVE))), Some(stored(&format!("{token}:approve"))));
        for as_it_is in [stored("apr_OLD:approve"), "{}".to_owned(), "[1]".to_owned()] {
            assert_eq!(key.handed_out(Some(as_it_is.clone())), Some(as_it_is));
        }
    }
}
