//! Tokens, estimated: one encoding for all models, since a provider's own counts come only after the call.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{LazyLock, Mutex};
use tiktoken_rs::CoreBPE;

/// Most counts that are remembered; then all are forgotten.
const REMEMBERED_MAX: usize = 4_096;
/// Longest piece that is given to the encoder at once: a letter repeated for pages costs it far more than its length.
const PIECE_BYTES: usize = 4_096;

/// Made with the first count, so that a server that only waits does not hold it.
static ENCODING: LazyLock<Option<CoreBPE>> = LazyLock::new(|| tiktoken_rs::cl100k_base().ok());
/// The files of the floor and the facts are the same in every turn.
static REMEMBERED: LazyLock<Mutex<HashMap<(u64, usize), u32>>> = LazyLock::new(Mutex::default);

/// About how many tokens a model makes of this text.
pub fn count_tokens(text: &str) -> u32 {
    if text.is_empty() {
        return 0;
    }
    let key = key_of(text);
    let known = REMEMBERED.lock().ok().and_then(|counts| counts.get(&key).copied());
    if let Some(count) = known {
        return count;
    }
    let count = pieces(text).map(encoded).sum();
    // A poisoned cache only means that this is counted again.
    if let Ok(mut counts) = REMEMBERED.lock() {
        if counts.len() >= REMEMBERED_MAX {
            counts.clear();
        }
        counts.insert(key, count);
    }
    count
}

/// The text that tokens of OpenAI's `cl100k_base` stand for; `None` when one of them stands for nothing.
pub fn text_of_tokens(tokens: &[u32]) -> Option<String> {
    let bytes = ENCODING.as_ref()?.decode_bytes(tokens).ok()?;
    // A letter may be cut where the client cut its tokens.
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

fn encoded(piece: &str) -> u32 {
    let count = match &*ENCODING {
        Some(encoding) => encoding.encode_ordinary(piece).len(),
        None => piece.len().div_ceil(4),
    };
    u32::try_from(count).unwrap_or(u32::MAX)
}

fn pieces(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let (piece, after) = rest.split_at(rest.floor_char_boundary(PIECE_BYTES));
        rest = after;
        (!piece.is_empty()).then_some(piece)
    })
}

fn key_of(text: &str) -> (u64, usize) {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    (hasher.finish(), text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sentence_has_about_as_many_tokens_as_words() {
        assert_eq!(count_tokens(""), 0);
        assert_eq!(count_tokens("Remind me every weekday at nine, please"), 9);
        assert_eq!(count_tokens("Remind me every weekday at nine, please"), 9, "remembered");
    }

    #[test]
    fn tokens_become_the_text_they_were() {
        assert_eq!(text_of_tokens(&[15_339, 1_917]).as_deref(), Some("hello world"));
        assert_eq!(text_of_tokens(&[]).as_deref(), Some(""));
        assert_eq!(text_of_tokens(&[15_339, 4_000_000_000]), None);
    }

    #[test]
    fn a_long_text_is_counted_in_pieces_that_split_no_letter() {
        let long = "ä".repeat(10_000);
        let count = count_tokens(&long);
        assert!((1_000..=20_000).contains(&count), "{count}");
    }
}
