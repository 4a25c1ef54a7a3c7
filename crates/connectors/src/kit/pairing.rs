//! Pairing: the owner has a code printed, sends it to the bot, and is let in from then on.

use super::notebook::{NotebookError, make_folder, replace};
use cortex_types::Millis;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fmt;
use std::path::Path;
use std::time::Duration;

const LETTERS: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
/// 25 letters of 5 bits: 125 bits.
const CODE_LETTERS: usize = 25;
const LETTERS_IN_GROUP: usize = 5;
const LIFE: Duration = Duration::from_secs(600);
const FILE: &str = "pairing.json";

/// A code that lets one person in, once.
#[derive(Clone, PartialEq, Eq)]
pub struct PairingCode(String);

/// What lies in the folder while a code is good.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct PairingFile {
    code_sha256: String,
    expires_at: Millis,
}

impl PairingCode {
    /// Makes a new code and leaves its hash in the connector's folder, where the running connector finds it. A code
    /// that was made before is good no more.
    pub fn issue(folder: &Path, now: Millis) -> Result<Self, NotebookError> {
        let code = Self(
            (0..CODE_LETTERS).map(|_| LETTERS[usize::from(rand::random::<u8>() % 32)] as char).collect(),
        );
        let file = PairingFile { code_sha256: code.sha256(), expires_at: now.after(LIFE) };
        let path = folder.join(FILE);
        let text = serde_json::to_vec(&file)
            .map_err(|source| NotebookError::Damaged { path: path.clone(), source })?;
        make_folder(folder)?;
        replace(&path, &text)?;
        Ok(code)
    }

    /// The code in a text that is nothing else, however it was typed: with or without dashes, in small letters, after
    /// the command that a link puts before it.
    pub(crate) fn read(text: &str) -> Option<Self> {
        let text = text.trim();
        let text =
            ["/start ", "/pair "].iter().find_map(|command| text.strip_prefix(command)).unwrap_or(text);
        let mut letters = String::new();
        for letter in text.chars().filter(|letter| !matches!(letter, '-' | ' ')) {
            let letter = match letter.to_ascii_uppercase() {
                'O' => '0',
                'I' | 'L' => '1',
                other => other,
            };
            if letters.len() == CODE_LETTERS || !LETTERS.contains(&u8::try_from(letter).ok()?) {
                return None;
            }
            letters.push(letter);
        }
        (letters.len() == CODE_LETTERS).then_some(Self(letters))
    }

    /// Its hash, when it is the code that is good now.
    pub(crate) fn redeem(&self, folder: &Path, spent: Option<&str>, now: Millis) -> Option<String> {
        let file: PairingFile = serde_json::from_slice(&std::fs::read(folder.join(FILE)).ok()?).ok()?;
        let hash = self.sha256();
        let is_good = file.code_sha256 == hash && now < file.expires_at && spent != Some(hash.as_str());
        is_good.then_some(hash)
    }

    fn sha256(&self) -> String {
        Sha256::digest(self.0.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// In groups that can be read aloud.
impl fmt::Display for PairingCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, letter) in self.0.chars().enumerate() {
            if index > 0 && index % LETTERS_IN_GROUP == 0 {
                f.write_str("-")?;
            }
            write!(f, "{letter}")?;
        }
        Ok(())
    }
}

/// It does not reach a log by accident.
impl fmt::Debug for PairingCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PairingCode(***)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_is_good_once_and_for_ten_minutes() {
        let folder = tempfile::tempdir().unwrap();
        let now = Millis(1_000);
        let code = PairingCode::issue(folder.path(), now).unwrap();
        let hash = code.redeem(folder.path(), None, now).unwrap();
        assert_eq!(code.redeem(folder.path(), Some(&hash), now), None);
        assert_eq!(code.redeem(folder.path(), None, now.after(LIFE)), None);
        PairingCode::issue(folder.path(), now).unwrap();
        assert_eq!(code.redeem(folder.path(), None, now), None, "a newer code replaces it");
    }

    #[test]
    fn a_code_is_read_however_it_is_typed_and_nothing_else_is_one() {
        let code = PairingCode("0123456789ABCDEFGHJKMNPQR".to_owned());
        assert_eq!(code.to_string(), "01234-56789-ABCDE-FGHJK-MNPQR");
        for typed in [
            "01234-56789-ABCDE-FGHJK-MNPQR",
            " o1234 56789 abcde fghjk mnpqr ",
            "/start 0L23456789ABCDEFGHJKMNPQR",
            "/pair 01234-56789-abcde-fghjk-mnpqr",
        ] {
            assert_eq!(PairingCode::read(typed), Some(code.clone()), "{typed}");
        }
        for other in
            ["", "/start", "hello", "01234-56789-ABCDE-FGHJK-MNPQ", "01234-56789-ABCDE-FGHJK-MNPQR5", "é"]
        {
            assert_eq!(PairingCode::read(other), None, "{other}");
        }
    }

    #[test]
    fn the_code_itself_is_not_on_disk() {
        let folder = tempfile::tempdir().unwrap();
        let code = PairingCode::issue(folder.path(), Millis(0)).unwrap();
        let text = std::fs::read_to_string(folder.path().join(FILE)).unwrap();
        assert!(!text.contains(&code.0) && !format!("{code:?}").contains(&code.0));
    }
}
