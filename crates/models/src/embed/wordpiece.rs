//! A text as tokens of the table: cleaned, split into words, each word into its longest known pieces.

use super::table::Table;
use unicode_general_category::{GeneralCategory, get_general_category};
use unicode_normalization::UnicodeNormalization;

/// The token of a word that has no pieces.
pub(super) const UNKNOWN: u32 = 100;
const WORD_CHARS_MAX: usize = 100;

pub(super) fn token_ids(text: &str, table: &Table) -> Vec<u32> {
    let mut ids = Vec::new();
    let mut piece = String::new();
    for word in words(text) {
        add_pieces(&word, table, &mut piece, &mut ids);
    }
    ids
}

/// Greedy: the longest piece first, again and again; a rest without a piece makes the whole word unknown.
fn add_pieces(word: &str, table: &Table, piece: &mut String, ids: &mut Vec<u32>) {
    let first = ids.len();
    if word.chars().count() > WORD_CHARS_MAX {
        ids.push(UNKNOWN);
        return;
    }
    let mut start = 0;
    while start < word.len() {
        let ends = word[start..].char_indices().map(|(at, letter)| start + at + letter.len_utf8());
        let found = ends.collect::<Vec<_>>().into_iter().rev().find_map(|end| {
            piece.clear();
            if start > 0 {
                piece.push_str("##");
            }
            piece.push_str(&word[start..end]);
            table.id(piece).map(|id| (id, end))
        });
        match found {
            Some((id, end)) => {
                ids.push(id);
                start = end;
            }
            None => {
                ids.truncate(first);
                ids.push(UNKNOWN);
                return;
            }
        }
    }
}

fn words(text: &str) -> Vec<String> {
    let cleaned = text.chars().filter_map(cleaned);
    let plain: String =
        cleaned.nfd().filter(|letter| category(*letter) != GeneralCategory::NonspacingMark).collect();
    let mut words = Vec::new();
    let mut word = String::new();
    for letter in plain.to_lowercase().chars() {
        let stands_alone = is_punctuation(letter) || is_ideograph(letter);
        if (letter.is_whitespace() || stands_alone) && !word.is_empty() {
            words.push(std::mem::take(&mut word));
        }
        if stands_alone {
            words.push(letter.to_string());
        } else if !letter.is_whitespace() {
            word.push(letter);
        }
    }
    if !word.is_empty() {
        words.push(word);
    }
    words
}

/// White space as a space; what nobody sees is left out.
fn cleaned(letter: char) -> Option<char> {
    use GeneralCategory as Category;
    if letter.is_ascii_graphic() {
        return Some(letter);
    }
    match (letter, category(letter)) {
        ('\t' | '\n' | '\r', _) | (_, Category::SpaceSeparator) => Some(' '),
        ('\0' | '\u{fffd}', _)
        | (_, Category::Control | Category::Format | Category::Unassigned | Category::PrivateUse) => None,
        (letter, _) => Some(letter),
    }
}

fn category(letter: char) -> GeneralCategory {
    get_general_category(letter)
}

fn is_punctuation(letter: char) -> bool {
    use GeneralCategory as Category;
    if letter.is_ascii() {
        return letter.is_ascii_punctuation();
    }
    matches!(
        category(letter),
        Category::ConnectorPunctuation
            | Category::DashPunctuation
            | Category::OpenPunctuation
            | Category::ClosePunctuation
            | Category::InitialPunctuation
            | Category::FinalPunctuation
            | Category::OtherPunctuation
    )
}

fn is_ideograph(letter: char) -> bool {
    matches!(letter,
        '\u{4e00}'..='\u{9fff}' | '\u{3400}'..='\u{4dbf}' | '\u{20000}'..='\u{2a6df}'
        | '\u{2a700}'..='\u{2ceaf}' | '\u{f900}'..='\u{faff}' | '\u{2f800}'..='\u{2fa1f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_plain_and_signs_stand_alone() {
        assert_eq!(words("Crème-brûlée, 東京!\u{200b}"), ["creme", "-", "brulee", ",", "東", "京", "!"]);
    }

    #[test]
    fn a_word_is_its_longest_pieces_or_unknown() {
        let table = Table::built_in();
        let ids = token_ids("embeddings", table);
        assert!(ids.len() > 1 && !ids.contains(&UNKNOWN), "{ids:?}");
        assert_eq!(token_ids(&"x".repeat(101), table), [UNKNOWN]);
    }
}
