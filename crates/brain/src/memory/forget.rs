//! What a summary says once a fact is forgotten: everything but the sentences that tell it.

use super::terms::{is_stop_word, words};
use std::collections::BTreeSet;

/// A sentence with this share of the telling words of a fact tells it.
const TOLD_MIN: f64 = 0.8;
const FEW: usize = 3;

/// The summary without its sentences that tell one of these texts; `None` when there are none.
pub fn without_told(summary: &str, texts: &[&str]) -> Option<String> {
    let texts: Vec<BTreeSet<String>> = texts.iter().map(|text| telling(text)).collect();
    let mut is_cut = false;
    let lines: Vec<String> = summary
        .lines()
        .filter_map(|line| {
            let all = sentences(line);
            let kept: Vec<&str> = all.iter().copied().filter(|sentence| !tells(sentence, &texts)).collect();
            is_cut |= kept.len() < all.len();
            (!kept.is_empty() || all.is_empty()).then(|| kept.concat().trim_end().to_owned())
        })
        .collect();
    is_cut.then(|| lines.join("\n"))
}

fn tells(sentence: &str, texts: &[BTreeSet<String>]) -> bool {
    let said = telling(sentence);
    texts.iter().any(|text| {
        let shared = text.intersection(&said).count();
        // One or two words are in many sentences: only a sentence of little else tells them.
        let is_about_it = text.len() >= FEW || said.len() <= text.len() + FEW;
        !text.is_empty() && is_about_it && shared as f64 >= TOLD_MIN * text.len() as f64
    })
}

fn telling(text: &str) -> BTreeSet<String> {
    words(text).into_iter().filter(|word| !is_stop_word(word)).collect()
}

/// The sentences of a line, each with its end and the space after it.
fn sentences(line: &str) -> Vec<&str> {
    let mut sentences = Vec::new();
    let mut start = 0;
    for (at, end) in line.match_indices(['.', '!', '?']) {
        let after = at + end.len();
        let is_end = line[after..].starts_with(char::is_whitespace);
        if is_end {
            sentences.push(&line[start..=after]);
            start = after + 1;
        }
    }
    if start < line.len() {
        sentences.push(&line[start..]);
    }
    sentences
}

#[cfg(test)]
mod tests {
    use super::without_told;

    #[track_caller]
    fn check(summary: &str, texts: &[&str], expected: Option<&str>) {
        assert_eq!(without_told(summary, texts).as_deref(), expected, "{summary:?} {texts:?}");
    }

    #[test]
    fn the_sentences_that_tell_a_forgotten_fact_go_and_the_others_stay() {
        let fact = "The safe opens with 1815";
        check(
            "Ada moved to Ghent. She said the safe opens with 1815. It rains.",
            &[fact],
            Some("Ada moved to Ghent. It rains."),
        );
        check("ada: the safe opens with 1815\nassistant: Noted.", &[fact], Some("assistant: Noted."));
        check("With 1815 the safe opens!", &[fact], Some(""));
        check("Ada moved to Ghent.", &[fact], None);
        check("The safe is old. Version 1.5 opens it.", &[fact], None);
    }

    #[test]
    fn a_fact_of_one_word_takes_no_sentence_about_other_things() {
        let summary = "Tea. Ada met Bob at the tea house in Ghent and they talked about the garden.";
        check(
            summary,
            &["tea"],
            Some("Ada met Bob at the tea house in Ghent and they talked about the garden."),
        );
    }

    #[test]
    fn every_source_of_the_fact_is_looked_for() {
        let said = ["Tea is Ada's favourite drink", "Ada likes tea most"];
        check("Ada likes tea most. Bob likes coffee.", &said, Some("Bob likes coffee."));
        check("", &said, None);
        check("one\n\ntwo", &["the of"], None);
    }
}
