//! Sentences for benchmarks: plain English made of a few hundred words, common ones more often, the same in every run.

const NAMES: &str = "Ada Bob Carla David Emma Felix Grace Henry Ida Jonas Katja Leo Mira Nora Oskar Paula Quentin Rosa \
    Samir Tessa Uwe Vera Walter Xenia Yusuf Zoe";
const VERBS: &str = "bought found repaired painted lost sold borrowed cleaned visited planned cancelled described \
    photographed measured moved opened closed recommended forgot returned finished started changed wrote read";
const THINGS: &str = "bicycle kitchen report garden meeting ticket camera recipe invoice library guitar window letter \
    museum concert printer backpack calendar lecture novel bridge ferry lamp mirror painting passport piano puzzle \
    radio sofa suitcase tent umbrella violin wardrobe whiskey yoghurt zipper server keyboard insurance contract \
    appointment birthday cinema dentist engine festival greenhouse harbour interview journey kettle ladder market";
const KINDS: &str = "old new red green quiet broken expensive small large heavy wooden famous early late useful strange \
    local private public modern cheap borrowed forgotten favourite";
const PLACES: &str = "Berlin Paris Lisbon Oslo Vienna Prague Zurich Ghent Turin Porto Leeds Cork Bergen Malmo Graz Basel \
    Lyon Nantes Seville Bilbao Krakow Riga Tallinn Athens";
const TIMES: &str =
    "yesterday today on Monday on Friday last week last summer before lunch after work in April in October";

/// Sentence number `number`.
pub(crate) fn sentence(number: u64) -> String {
    let mut dice = Dice(number.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x2545_f491_4f6c_dd1d);
    let mut one_of = |words: &'static str| {
        let words: Vec<&str> = words.split_whitespace().collect();
        words[dice.skewed(words.len())]
    };
    format!(
        "{} {} the {} {} in {} {} because the {} of {} was {} and number {number} of them",
        one_of(NAMES),
        one_of(VERBS),
        one_of(KINDS),
        one_of(THINGS),
        one_of(PLACES),
        one_of(TIMES),
        one_of(THINGS),
        one_of(NAMES),
        one_of(KINDS),
    )
}

/// A question with words of sentence `number`.
pub(crate) fn question(number: u64) -> String {
    let told = sentence(number);
    let words: Vec<&str> = told.split_whitespace().collect();
    format!("What did {} do with the {} {} in {}?", words[0], words[3], words[4], words[6])
}

/// A small generator of numbers: figures of two runs are about the same texts.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// Below `count`, the small ones more often, as words are.
    fn skewed(&mut self, count: usize) -> usize {
        let share = (self.next() % 10_000) as f64 / 10_000.0;
        ((share * share) * count as f64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sentence_is_the_same_every_time_and_a_question_has_its_words() {
        assert_eq!(sentence(7), sentence(7));
        assert_ne!(sentence(7), sentence(8));
        let told = sentence(7);
        let name = told.split(' ').next().unwrap();
        assert!(question(7).contains(name), "{told} {}", question(7));
    }
}
