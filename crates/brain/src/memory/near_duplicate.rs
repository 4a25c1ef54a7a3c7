//! When two texts say the same: near in meaning, nearly the same words, and no difference in a "not" or a number (D21).

use std::collections::BTreeSet;

const COSINE_OVER: f32 = 0.92;
const WORDS_SHARED_MIN: f64 = 0.8;

const NEGATIONS: &[&str] = &[
    "not", "no", "never", "none", "nobody", "nothing", "nowhere", "neither", "nor", "without", "cannot",
    "stopped", "quit", "nicht", "kein", "keine", "keinen", "nie", "niemals", "ohne",
];
const NUMBERS: &[&str] = &[
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
    "twenty",
    "thirty",
    "forty",
    "fifty",
    "sixty",
    "seventy",
    "eighty",
    "ninety",
    "hundred",
    "thousand",
    "million",
    "first",
    "second",
    "third",
    "once",
    "twice",
    "half",
];

/// Whether one fact is enough for both. `cosine` is that of their vectors.
pub fn is_near_duplicate(one: &str, other: &str, cosine: f32) -> bool {
    if cosine <= COSINE_OVER {
        return false;
    }
    let (one, other) = (words(one), words(other));
    negations(&one) == negations(&other)
        && numbers(&one) == numbers(&other)
        && shared(&one, &other) >= WORDS_SHARED_MIN
}

/// Words in lower case; a number keeps its point, and "isn't" is "is" and "not".
fn words(text: &str) -> Vec<String> {
    let text = text.to_lowercase().replace('\u{2019}', "'");
    let mut words = Vec::new();
    for word in text.split(|c: char| !c.is_alphanumeric() && !"'.,-:".contains(c)) {
        let word = word.trim_matches(|c: char| !c.is_alphanumeric());
        if word.contains(|c: char| c.is_ascii_digit()) {
            words.push(word.to_owned());
            continue;
        }
        for part in word.split(['.', ',', '-', ':']).filter(|part| !part.is_empty()) {
            match part.strip_suffix("n't") {
                Some(verb) => words.extend([verb.to_owned(), "not".to_owned()]),
                None => words.push(part.trim_end_matches("'s").replace('\'', "")),
            }
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

fn negations(words: &[String]) -> usize {
    words.iter().filter(|word| NEGATIONS.contains(&word.as_str())).count()
}

fn numbers(words: &[String]) -> Vec<&str> {
    let is_number = |word: &&str| word.contains(|c: char| c.is_ascii_digit()) || NUMBERS.contains(word);
    let mut numbers: Vec<&str> = words.iter().map(String::as_str).filter(is_number).collect();
    numbers.sort_unstable();
    numbers
}

/// The share of the words of either that both have.
fn shared(one: &[String], other: &[String]) -> f64 {
    let (one, other): (BTreeSet<_>, BTreeSet<_>) = (one.iter().collect(), other.iter().collect());
    let all = one.union(&other).count();
    if all == 0 { 0.0 } else { one.intersection(&other).count() as f64 / all as f64 }
}

#[cfg(test)]
mod tests {
    use super::is_near_duplicate;

    #[track_caller]
    fn check(one: &str, other: &str, cosine: f32, expected: bool) {
        assert_eq!(is_near_duplicate(one, other, cosine), expected, "{one:?} {other:?} {cosine}");
        assert_eq!(is_near_duplicate(other, one, cosine), expected, "{other:?} {one:?} {cosine}");
    }

    #[test]
    fn the_same_words_in_another_order_or_case_are_the_same() {
        check("Ada likes green tea", "ada likes green tea.", 0.99, true);
        check("In Berlin Ada lives with her two cats", "Ada lives in Berlin with her two cats", 0.98, true);
        check("Ada's sister lives in the old town", "Ada sister lives in the old town", 0.97, true);
    }

    #[test]
    fn a_negation_makes_it_another_fact() {
        check("Ada does eat meat on Fridays now", "Ada does not eat meat on Fridays now", 0.99, false);
        check("Ada doesn't eat meat on Fridays", "Ada does not eat meat on Fridays", 0.99, true);
        check("Ada isn\u{2019}t allergic to nuts at all", "Ada is allergic to nuts at all", 0.99, false);
        check("the door is never locked at night here", "the door is locked at night here", 0.99, false);
    }

    #[test]
    fn another_number_makes_it_another_fact() {
        check(
            "the rent of the flat is 950 euros a month",
            "the rent of the flat is 980 euros a month",
            0.99,
            false,
        );
        check(
            "Ada has three brothers and a dog at home",
            "Ada has two brothers and a dog at home",
            0.99,
            false,
        );
        check(
            "the meeting is at 9:30 on every single Monday",
            "the meeting is at 9:45 on every single Monday",
            0.99,
            false,
        );
        check("version 1.5 is out", "version 1.5 is out!", 0.99, true);
    }

    #[test]
    fn the_borders_are_where_they_are_said_to_be() {
        check("a b c d", "a b c d", 0.92, false);
        check("a b c d", "a b c d", 0.9201, true);
        check("red green blue grey", "red green blue grey pink", 0.95, true);
        check("red green blue grey", "red green blue black pink", 0.95, false);
        check("", "", 1.0, false);
    }
}
