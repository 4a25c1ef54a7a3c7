//! What a secret looks like and what is named like one: the one list for logs, errors, listings and excerpts.

use std::borrow::Cow;
use std::ops::Range;

/// What stands in a secret's place.
pub const SECRET_MASK: &str = "***";

/// Shorter values are words, not secrets; hiding them would make a text unreadable.
pub const SECRET_BYTES_MIN: usize = 8;

/// How tokens begin, and the fewest bytes of a whole one; ours first. Shorter words are words.
const TOKEN_BEGINNINGS: &[(&str, usize)] = &[
    // The owner's token, the keys of ingest and connectors, what tokens of questions are made with, approvals, leases, secrets
    // of webhooks.
    ("cxt_", 20),
    ("cxk_", 20),
    ("ck_", 40),
    ("cxa_", 20),
    ("apr_", 20),
    ("lease_", 28),
    ("whsec_", 14),
    ("sk-", 11),
    ("sk_", 16),
    ("pk_", 16),
    ("rk_", 16),
    ("gsk_", 16),
    ("xai-", 16),
    ("key-", 24),
    ("pplx-", 16),
    ("hf_", 20),
    ("AIza", 14),
    ("ya29.", 16),
    ("ghp_", 16),
    ("gho_", 16),
    ("ghs_", 16),
    ("ghu_", 16),
    ("ghr_", 16),
    ("github_pat_", 20),
    ("glpat-", 16),
    ("npm_", 20),
    ("xoxb-", 14),
    ("xoxp-", 14),
    ("xoxa-", 14),
    ("xoxs-", 14),
    ("xapp-", 14),
    ("syt_", 16),
    ("AKIA", 16),
    ("ASIA", 20),
    ("SG.", 20),
    ("eyJ", 30),
];

/// How a word of a name ends that belongs to a secret.
const NAME_ENDINGS: &[&str] = &[
    "key",
    "token",
    "secret",
    "password",
    "passwd",
    "passphrase",
    "authorization",
    "cookie",
    "credential",
    "credentials",
];

const BOT_TOKEN_BYTES_MIN: usize = 30;
const PRIVATE_KEY: &str = "PRIVATE KEY-----";

/// Whether a setting, variable, header or flag of this name holds a secret: `apiKey`, `X-Api-Key`, `DB_PASSWORD`, `--token`.
pub fn names_a_secret(name: &str) -> bool {
    name_words(name).any(|word| NAME_ENDINGS.iter().any(|ending| word.ends_with(ending)))
}

/// The words of a name in small letters, parted by signs and by humps.
fn name_words(name: &str) -> impl Iterator<Item = String> {
    let mut words = vec![String::new()];
    let mut was_small = false;
    for letter in name.chars() {
        if !letter.is_alphanumeric() || (letter.is_uppercase() && was_small) {
            words.push(String::new());
        }
        was_small = letter.is_lowercase() || letter.is_numeric();
        if let Some(word) = words.last_mut().filter(|_| letter.is_alphanumeric()) {
            word.extend(letter.to_lowercase());
        }
    }
    words.into_iter().filter(|word| !word.is_empty())
}

/// The text with everything that looks like a secret masked, whoever wrote it.
pub fn without_secrets(text: &str) -> Cow<'_, str> {
    let mut ranges = secret_words(text);
    ranges.extend(passwords(text));
    ranges.extend(private_keys(text));
    if ranges.is_empty() {
        return Cow::Borrowed(text);
    }
    ranges.sort_by_key(|range| range.start);
    let mut masked = String::with_capacity(text.len());
    let mut copied = 0;
    for range in ranges {
        if range.start >= copied {
            masked.push_str(&text[copied..range.start]);
            masked.push_str(SECRET_MASK);
        }
        copied = copied.max(range.end);
    }
    masked.push_str(&text[copied..]);
    Cow::Owned(masked)
}

/// The text without these secrets and without what looks like one. Of `Bearer abc` the token alone is hidden, too.
pub fn without_known<'a>(text: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    let both = known.into_iter().flat_map(|secret| [Some(secret), secret.rsplit(' ').next()]).flatten();
    let mut long: Vec<&str> = both.filter(|secret| secret.len() >= SECRET_BYTES_MIN).collect();
    // The longest first: a secret that begins with another must not leave its tail behind.
    long.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
    let text = long.iter().fold(text.to_owned(), |text, secret| text.replace(secret, SECRET_MASK));
    without_secrets(&text).into_owned()
}

fn secret_words(text: &str) -> Vec<Range<usize>> {
    let words: Vec<Range<usize>> = words(text).collect();
    let at = |index: usize| &text[words[index].clone()];
    let between = |index: usize| &text[words[index - 1].end..words[index].start];
    let is_secret = |index: usize| {
        let word = at(index);
        let before = index.checked_sub(1).map(at);
        let two_before = index.checked_sub(2).map(at);
        let follows_bearer = before.is_some_and(|before| before.eq_ignore_ascii_case("bearer"));
        let follows_scheme = before.is_some_and(|before| before.eq_ignore_ascii_case("basic"))
            && two_before.is_some_and(|before| before.eq_ignore_ascii_case("authorization"));
        // `?key=…` and `&access_token=…` of an address.
        let is_parameter = index > 0
            && between(index) == "="
            && text[..words[index - 1].start].ends_with(['?', '&'])
            && before.is_some_and(names_a_secret);
        // A bot's token is its number and a secret, with a colon between.
        let is_bot_token = index > 0
            && between(index) == ":"
            && word.len() >= BOT_TOKEN_BYTES_MIN
            && before.is_some_and(is_bot_number);
        looks_like_token(word) || follows_bearer || follows_scheme || is_parameter || is_bot_token
    };
    (0..words.len()).filter(|index| is_secret(*index)).map(|index| words[index].clone()).collect()
}

fn looks_like_token(word: &str) -> bool {
    TOKEN_BEGINNINGS
        .iter()
        .any(|(beginning, bytes_min)| word.len() >= *bytes_min && word.starts_with(beginning))
}

fn is_bot_number(word: &str) -> bool {
    (6..=14).contains(&word.trim_start_matches("bot").len())
        && word.trim_start_matches("bot").bytes().all(|byte| byte.is_ascii_digit())
}

/// Runs of letters that a token can be made of. Stars are among them: providers show keys with some of their letters starred.
fn words(text: &str) -> impl Iterator<Item = Range<usize>> {
    let is_part =
        |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-' | '.' | '+' | '~' | '*');
    let mut start = 0;
    text.split_inclusive(move |letter| !is_part(letter)).filter_map(move |piece| {
        let from = start;
        start += piece.len();
        let word = piece.trim_end_matches(|letter| !is_part(letter));
        (!word.is_empty()).then(|| from..from + word.len())
    })
}

/// `me:secret` of `http://me:secret@host`.
fn passwords(text: &str) -> impl Iterator<Item = Range<usize>> {
    text.match_indices("://").filter_map(|(at, scheme)| {
        let start = at + scheme.len();
        let ends = |letter: char| letter.is_whitespace() || matches!(letter, '/' | '?' | '#' | '"' | '\'');
        let authority = &text[start..];
        let authority = &authority[..authority.find(ends).unwrap_or(authority.len())];
        authority.rfind('@').map(|end| start..start + end)
    })
}

fn private_keys(text: &str) -> impl Iterator<Item = Range<usize>> {
    let is_begin =
        |at: usize| text[..at].rfind("-----").is_some_and(|mark| text[mark..].starts_with("-----BEGIN"));
    text.match_indices(PRIVATE_KEY).filter(move |(at, _)| is_begin(*at)).map(|(at, mark)| {
        let start = at + mark.len();
        let end = text[start..].find("-----END").map_or(text.len(), |end| start + end);
        start..end
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        assert_eq!(without_secrets(text), expected);
    }

    #[test]
    fn what_looks_like_a_secret_is_masked() {
        check("Authorization: Bearer abc.def", "Authorization: Bearer ***");
        check("authorization: Basic dXNlcjpwdw", "authorization: Basic ***");
        check("key=sk-proj-0123456789abcdef, next", "key=***, next");
        check("Incorrect key: sk-proj-abc***xyz.", "Incorrect key: ***");
        check("?key=AIzaSyA0123456789abcdef&x=1", "?key=***&x=1");
        check("GET https://h/p?city=Bonn&api_key=hunter2 now", "GET https://h/p?city=Bonn&api_key=*** now");
        check("see http://me:hunter2@host/x and http://host/@x", "see http://***@host/x and http://host/@x");
        check("/bot123456789:AAEhBOweik6ad9r_QXMENQjcrGbqCr4K-bc/getMe", "/bot123456789:***/getMe");
        check("{\"key\":\"AIzaSyA1234567\"}", "{\"key\":\"***\"}");
        check(
            "-----BEGIN RSA PRIVATE KEY-----\\nMIIB\\n-----END RSA PRIVATE KEY-----",
            "-----BEGIN RSA PRIVATE KEY-----***-----END RSA PRIVATE KEY-----",
        );
        check("-----BEGIN PRIVATE KEY-----\nMIIB", "-----BEGIN PRIVATE KEY-----***");
    }

    #[test]
    fn our_own_secrets_are_in_the_list() {
        for ours in ["cxt_", "cxk_", "cxa_", "apr_", "lease_"] {
            check(&format!("a {ours}01J00000000000000000000000 b"), "a *** b");
        }
        check("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "***");
    }

    #[test]
    fn known_secrets_are_masked_whatever_they_look_like() {
        let known = ["Token second-secret", "hunter2hunter2", "hunter2hunter2-and-more", "3"];
        let text = "3 of hunter2hunter2-and-more, hunter2hunter2, second-secret, Token second-secret";
        assert_eq!(without_known(text, known), "3 of ***, ***, ***, ***");
    }

    #[test]
    fn words_and_ids_stay() {
        for text in [
            "risk-averse task-force",
            "evt_01J00000000000000000000000 done",
            "apv_01J00000000000000000000000",
            "key_01J00000000000000000000000",
            "a basic check of the bearer",
            "2026-01-01T00:00:00Z 127.0.0.1:8080",
            "lease_expired",
            "topicKey=chat-42",
            "the key-value store",
        ] {
            check(text, text);
        }
    }

    #[test]
    fn names_of_secrets_are_known_however_they_are_written() {
        for name in [
            "apiKey",
            "OPENAI_API_KEY",
            "X-Api-Key",
            "db_password",
            "--token",
            "accessToken",
            "APIKEY",
            "Set-Cookie",
        ] {
            assert!(names_a_secret(name), "{name}");
        }
        for name in ["maxTokens", "HOME", "city", "keyboard", "secretary", "CORTEX_MAX_TOKENS_PER_DAY"] {
            assert!(!names_a_secret(name), "{name}");
        }
    }
}
