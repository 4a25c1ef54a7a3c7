//! L1: the state machines of the store, as its own tests run them, with many more sequences.

use super::Extent;
use super::report::Findings;
use crate::child::{Workplace, tail};
use anyhow::{Context, Result};
use std::fs;

const SEQUENCES_FULL: &str = "20000";
const SEQUENCES_SHORT: &str = "300";

pub(crate) fn run(workplace: &Workplace, extent: Extent) -> Result<Findings> {
    // Many sequences want the optimized build; a few want the one that the other tests have built already.
    let (sequences, profile) = match extent {
        Extent::Full => (SEQUENCES_FULL, "release"),
        Extent::Short => (SEQUENCES_SHORT, "test"),
    };
    let seed = (rand::random::<u16>()).to_string();
    let command = [
        "cargo",
        "test",
        "--profile",
        profile,
        "--package",
        "cortex-store",
        "--test",
        "it",
        "--",
        "--nocapture",
        "sequence::",
    ];
    let variables = [("CORTEX_L1_SEQUENCES", sequences), ("CORTEX_L1_SEED", seed.as_str())];
    let ended = workplace.run_with("faults L1", &command, &variables)?;
    let mut findings = Findings::default();
    let log = fs::read_to_string(&ended.log)?;
    // The test runner may have put the name of the test in front.
    let line = log.lines().find_map(|line| line.find("L1 sequences=").map(|at| &line[at..]));
    for (name, count) in line.map(figures).unwrap_or_default() {
        match name {
            "sequences" => findings.figure("sequences", count),
            "steps" => findings.figure("steps", count),
            "violations" => findings.demand(count == 0, || format!("{count} with CORTEX_L1_SEED={seed}")),
            _ => {}
        }
    }
    findings.demand(ended.success, || format!("the end of {}:\n{}", ended.log.display(), tail(&ended.log)));
    findings.demand(findings.has_figures(), || "the state machines printed no figures".to_owned());
    Ok(findings)
}

/// `L1 sequences=20000 steps=340000 violations=0`.
fn figures(line: &str) -> Vec<(&str, usize)> {
    let words = line.split_whitespace().filter_map(|word| word.split_once('='));
    words.filter_map(|(name, count)| Some((name, count.parse().context("a count").ok()?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_figures_of_the_state_machines_are_read() {
        assert_eq!(
            figures("L1 sequences=500 steps=8316 violations=1"),
            [("sequences", 500), ("steps", 8_316), ("violations", 1)]
        );
    }
}
