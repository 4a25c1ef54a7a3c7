//! What a question looks for in the full text: its words without those that every sentence has.

use std::collections::BTreeSet;

/// More words than this make a search slower and no better.
const TERMS_MAX: usize = 24;

const STOP_WORDS: &[&str] = &[
    "a", "about", "after", "again", "all", "also", "am", "an", "and", "any", "are", "as", "at", "be",
    "because", "been", "before", "being", "between", "both", "but", "by", "can", "could", "did", "do",
    "does", "doing", "down", "during", "each", "for", "from", "further", "had", "has", "have", "having",
    "he", "her", "here", "hers", "him", "his", "how", "i", "if", "in", "into", "is", "it", "its", "just",
    "me", "more", "most", "my", "no", "nor", "not", "now", "of", "off", "on", "once", "only", "or", "other",
    "our", "out", "over", "own", "s", "same", "she", "should", "so", "some", "such", "t", "than", "that",
    "the", "their", "them", "then", "there", "these", "they", "this", "those", "through", "to", "too",
    "under", "until", "up", "very", "was", "we", "were", "what", "when", "where", "which", "while", "who",
    "whom", "whose", "why", "will", "with", "would", "you", "your",
];

/// The query for the full-text index: any of the words; empty when there is nothing to look for.
pub fn match_expression(query: &str) -> String {
    let words: Vec<String> = words(query);
    let mut seen = BTreeSet::new();
    let fresh: Vec<&str> = words.iter().map(String::as_str).filter(|word| seen.insert(*word)).collect();
    let telling: Vec<&str> = fresh.iter().copied().filter(|word| !is_stop_word(word)).collect();
    // "Who are you" has nothing else.
    let chosen = if telling.is_empty() { fresh } else { telling };
    let quoted: Vec<String> = chosen.iter().take(TERMS_MAX).map(|word| format!("\"{word}\"")).collect();
    quoted.join(" OR ")
}

pub(super) fn is_stop_word(word: &str) -> bool {
    STOP_WORDS.contains(&word)
}

pub(super) fn words(text: &str) -> Vec<String> {
    let lower = text.to_lowercase();
    lower.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::match_expression;

    #[track_caller]
    fn check(query: &str, expected: &str) {
        assert_eq!(match_expression(query), expected, "{query:?}");
    }

    #[test]
    fn the_telling_words_of_a_question_are_looked_for() {
        check("When did Ada go to the museum?", "\"ada\" OR \"go\" OR \"museum\"");
        check("museum Museum MUSEUM", "\"museum\"");
        check("What is it?", "\"what\" OR \"is\" OR \"it\"");
        check("?! …", "");
        check("", "");
    }

    #[test]
    fn what_the_full_text_index_would_read_as_syntax_is_only_words() {
        check(
            "NEAR(a b) \"x\" AND text:y* OR -z",
            "\"near\" OR \"b\" OR \"x\" OR \"text\" OR \"y\" OR \"z\"",
        );
    }

    #[test]
    fn a_very_long_question_is_cut() {
        let long: String = (0..500).map(|number| format!("word{number} ")).collect();
        assert_eq!(match_expression(&long).matches(" OR ").count(), super::TERMS_MAX - 1);
    }
}
