//! Rules that find facts without a model: what people say about themselves, and what they ask to be remembered.

use super::{ExtractedFact, FactCategory, capped, fact, one_line};

/// Longest part of a task or a result in a fact.
const SUMMARY_CHARS_MAX: usize = 200;

/// How the words that follow a phrase become a sentence that stands alone.
enum Sentence {
    /// What follows, as it is.
    AsSaid,
    /// This, then what follows.
    After(&'static str),
}

struct Rule {
    /// In lower case; stands where a sentence begins, after words that only lead in.
    phrase: &'static str,
    category: FactCategory,
    sentence: Sentence,
}

const fn rule(phrase: &'static str, category: FactCategory, sentence: Sentence) -> Rule {
    Rule { phrase, category, sentence }
}

use FactCategory::{Decision, Fact, Preference};
use Sentence::{After, AsSaid};

/// The first that fits a sentence wins.
const RULES: &[Rule] = &[
    rule("remember that ", Fact, AsSaid),
    rule("remember: ", Fact, AsSaid),
    rule("don't forget that ", Fact, AsSaid),
    rule("keep in mind that ", Fact, AsSaid),
    rule("my name is ", Fact, After("The user's name is ")),
    rule("call me ", Preference, After("The user wants to be called ")),
    rule("i live in ", Fact, After("The user lives in ")),
    rule("i'm living in ", Fact, After("The user lives in ")),
    rule("i am living in ", Fact, After("The user lives in ")),
    rule("i moved to ", Fact, After("The user moved to ")),
    rule("i come from ", Fact, After("The user comes from ")),
    rule("i'm from ", Fact, After("The user comes from ")),
    rule("i am from ", Fact, After("The user comes from ")),
    rule("i was born ", Fact, After("The user was born ")),
    rule("my birthday is ", Fact, After("The user's birthday is ")),
    rule("i work at ", Fact, After("The user works at ")),
    rule("i work for ", Fact, After("The user works for ")),
    rule("i work as ", Fact, After("The user works as ")),
    rule("i have a ", Fact, After("The user has a ")),
    rule("i have an ", Fact, After("The user has an ")),
    rule("i'm allergic to ", Fact, After("The user is allergic to ")),
    rule("i am allergic to ", Fact, After("The user is allergic to ")),
    rule("i prefer ", Preference, After("The user prefers ")),
    rule("i'd rather ", Preference, After("The user would rather ")),
    rule("i would rather ", Preference, After("The user would rather ")),
    rule("i don't like ", Preference, After("The user does not like ")),
    rule("i do not like ", Preference, After("The user does not like ")),
    rule("i dislike ", Preference, After("The user dislikes ")),
    rule("i really like ", Preference, After("The user likes ")),
    rule("i like ", Preference, After("The user likes ")),
    rule("i love ", Preference, After("The user loves ")),
    rule("i hate ", Preference, After("The user hates ")),
    rule("i enjoy ", Preference, After("The user enjoys ")),
    rule("my favourite ", Preference, After("The user's favourite ")),
    rule("my favorite ", Preference, After("The user's favourite ")),
    rule("we decided ", Decision, After("It was decided ")),
    rule("i decided ", Decision, After("The user decided ")),
    rule("i've decided ", Decision, After("The user decided ")),
    rule("we agreed ", Decision, After("It was agreed ")),
    rule("we chose ", Decision, After("It was chosen: ")),
    rule("let's go with ", Decision, After("The choice is ")),
    rule("from now on ", Decision, After("From now on ")),
];

/// Words before a phrase that change nothing.
const LEADS: &[&str] = &[
    "please ",
    "and ",
    "also ",
    "but ",
    "so ",
    "well ",
    "well, ",
    "hi, ",
    "hello, ",
    "hey, ",
    "ok, ",
    "by the way, ",
    "btw, ",
];

/// The facts in what one person said, by fixed rules; as many as a batch may leave.
pub fn extract_by_rules(lines: &[&str]) -> Vec<ExtractedFact> {
    capped(lines.iter().flat_map(|line| sentences(line)).flat_map(|sentence| by_rules(&sentence)))
}

/// Of a result the rules keep what was asked and how the answer begins.
pub fn harvest_by_rules(description: &str, result: &str) -> Vec<ExtractedFact> {
    let Some(first) = sentences(result).into_iter().next() else { return Vec::new() };
    let first: String = first.chars().take(SUMMARY_CHARS_MAX).collect();
    let asked: String = one_line(description).chars().take(SUMMARY_CHARS_MAX).collect();
    fact(&format!("{asked}: {first}"), FactCategory::Fact).into_iter().collect()
}

/// `… and I live in Berlin` begins a sentence of its own when a rule fits it.
fn by_rules(sentence: &str) -> Vec<ExtractedFact> {
    let plain = sentence.replace('\u{2019}', "'");
    let lower = plain.to_ascii_lowercase();
    let is_start = |at: &usize| lower.get(at + " and ".len()..).is_some_and(fits_a_rule);
    let mut starts: Vec<usize> = lower.match_indices(" and ").map(|(at, _)| at).filter(is_start).collect();
    starts.insert(0, 0);
    starts.push(plain.len());
    starts.windows(2).filter_map(|part| by_rule(&plain[part[0]..part[1]])).collect()
}

fn fits_a_rule(rest: &str) -> bool {
    RULES.iter().any(|rule| strip(rest, rule.phrase).is_some())
}

fn by_rule(plain: &str) -> Option<ExtractedFact> {
    let rest = without_leads(plain);
    RULES.iter().find_map(|rule| {
        let (head, tail) = rest.split_at_checked(rule.phrase.len())?;
        if !head.eq_ignore_ascii_case(rule.phrase) {
            return None;
        }
        let tail = tail.trim().trim_end_matches(['.', '!', ' ']);
        // A phrase with nothing behind it, or a question about it, says nothing.
        if tail.is_empty() || tail.ends_with('?') {
            return None;
        }
        let content = match rule.sentence {
            Sentence::AsSaid => tail.to_owned(),
            Sentence::After(start) => format!("{start}{tail}"),
        };
        fact(&content, rule.category)
    })
}

fn without_leads(sentence: &str) -> &str {
    let mut rest = sentence.trim_start();
    while let Some(shorter) = LEADS.iter().find_map(|lead| strip(rest, lead)) {
        rest = shorter.trim_start();
    }
    rest
}

fn strip<'a>(text: &'a str, prefix: &str) -> Option<&'a str> {
    let (head, tail) = text.split_at_checked(prefix.len())?;
    head.eq_ignore_ascii_case(prefix).then_some(tail)
}

/// Ends at a stop, a question or exclamation mark before a space, or a line's end; the mark stays with it. A stop
/// before a number is one of an abbreviation.
fn sentences(text: &str) -> Vec<String> {
    let mut sentences = vec![String::new()];
    for (at, letter) in text.char_indices() {
        let rest = &text[at + letter.len_utf8()..];
        let next = rest.trim_start().chars().next();
        let ends = match letter {
            '\n' => true,
            '.' => starts_apart(rest) && !next.is_some_and(|next| next.is_ascii_digit()),
            '!' | '?' => starts_apart(rest),
            _ => false,
        };
        if let Some(current) = sentences.last_mut() {
            current.push(letter);
        }
        if ends {
            sentences.push(String::new());
        }
    }
    sentences.iter().map(|sentence| one_line(sentence)).filter(|sentence| !sentence.is_empty()).collect()
}

fn starts_apart(rest: &str) -> bool {
    rest.chars().next().is_none_or(char::is_whitespace)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rules_find_what_people_say_about_themselves() {
        let table: &[(&str, &[(&str, &str)])] = &[
            ("My name is Ada.", &[("The user's name is Ada", "fact")]),
            ("Hi, my name is Ada Lovelace!", &[("The user's name is Ada Lovelace", "fact")]),
            ("I live in Paris. What is the weather?", &[("The user lives in Paris", "fact")]),
            ("I like green tea", &[("The user likes green tea", "preference")]),
            (
                "my name is Ada and I live in Berlin and Bonn",
                &[("The user's name is Ada", "fact"), ("The user lives in Berlin and Bonn", "fact")],
            ),
            ("but I prefer coffee", &[("The user prefers coffee", "preference")]),
            (
                "I hate Mondays. I love Fridays.",
                &[("The user hates Mondays", "preference"), ("The user loves Fridays", "preference")],
            ),
            ("I don\u{2019}t like olives", &[("The user does not like olives", "preference")]),
            ("Please remember that the spare key is at No. 5", &[("the spare key is at No. 5", "fact")]),
            ("Remember: the code is 4711", &[("the code is 4711", "fact")]),
            ("We decided to take Rust", &[("It was decided to take Rust", "decision")]),
            ("by the way, I'm allergic to nuts", &[("The user is allergic to nuts", "fact")]),
            ("from now on answer in French", &[("From now on answer in French", "decision")]),
            (
                "I have a dog called Rex\nand I work at ACME",
                &[("The user has a dog called Rex", "fact"), ("The user works at ACME", "fact")],
            ),
            ("I like tea. I like tea.", &[("The user likes tea", "preference")]),
            ("Do you know where I live in summer?", &[]),
            ("remember that?", &[]),
            ("I like ", &[]),
            ("What do I like best?", &[]),
            ("They said my name is Bob", &[]),
            ("hello", &[]),
            ("\u{1F600}\u{1F600} é", &[]),
        ];
        for (said, expected) in table {
            let facts = extract_by_rules(&[said]);
            let seen: Vec<_> =
                facts.iter().map(|fact| (fact.content.as_str(), fact.category.as_str())).collect();
            assert_eq!(&seen, expected, "{said:?}");
        }
    }

    #[test]
    fn of_a_result_its_beginning_is_kept() {
        let facts = harvest_by_rules("find flights", "LH 400 leaves at 9. BA 9 leaves at noon.");
        assert_eq!(facts[0].content, "find flights: LH 400 leaves at 9.");
        assert_eq!(harvest_by_rules("find flights", " \n"), []);
    }

    #[test]
    fn a_batch_leaves_no_more_than_the_cap() {
        let lines: Vec<String> = (0..30).map(|number| format!("I like number {number}")).collect();
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        assert_eq!(extract_by_rules(&lines).len(), super::super::FACTS_MAX);
    }
}
