//! What a layer found: its figures, and every violation.

use std::fmt::{self, Debug, Display};
use std::time::Duration;

/// Violations of one layer that are shown; the count has them all.
const SHOWN_MAX: usize = 20;

/// What one layer did.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    figures: Vec<(&'static str, usize)>,
    violations: Vec<String>,
    /// Parts that this machine could not run, and what they miss.
    skipped: Vec<(&'static str, &'static str)>,
}

impl Findings {
    /// What could not go on is a violation like any other: the rest still runs.
    pub(crate) fn or_error(found: anyhow::Result<Self>) -> Self {
        found.unwrap_or_else(|error| Self { violations: vec![format!("{error:#}")], ..Self::default() })
    }

    pub(crate) fn figure(&mut self, name: &'static str, count: usize) {
        self.figures.push((name, count));
    }

    pub(crate) fn violation(&mut self, violation: impl Display) {
        self.violations.push(violation.to_string());
    }

    pub(crate) fn violations(&mut self, place: &str, found: &[impl Debug]) {
        self.violations.extend(found.iter().map(|violation| format!("{place}: {violation:?}")));
    }

    /// A violation unless it holds.
    pub(crate) fn demand(&mut self, holds: bool, otherwise: impl FnOnce() -> String) {
        if !holds {
            self.violations.push(otherwise());
        }
    }

    pub(crate) fn skip(&mut self, part: &'static str, missing: &'static str) {
        self.skipped.push((part, missing));
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.figures.extend(other.figures);
        self.violations.extend(other.violations);
        self.skipped.extend(other.skipped);
    }

    /// Every violation says which case it is from.
    pub(crate) fn named(mut self, case: &str) -> Self {
        for violation in &mut self.violations {
            *violation = format!("{case}: {violation}");
        }
        self
    }

    /// For a case whose counts are not worth a reader's time.
    pub(crate) fn without_figures(mut self) -> Self {
        self.figures.clear();
        self
    }

    pub(crate) fn has_figures(&self) -> bool {
        !self.figures.is_empty()
    }

    pub(crate) fn count(&self) -> usize {
        self.violations.len()
    }
}

/// A layer that ran.
pub(crate) struct Line {
    pub(crate) layer: &'static str,
    pub(crate) findings: Findings,
    pub(crate) took: Duration,
}

impl Line {
    pub(crate) fn is_green(&self) -> bool {
        self.findings.violations.is_empty()
    }

    fn figures(&self) -> String {
        let figures = self.findings.figures.iter().map(|(name, count)| format!("{name}={count}"));
        let violations = format!("violations={}", self.findings.violations.len());
        figures.chain([violations]).collect::<Vec<_>>().join(" ")
    }
}

/// One line, then what is wrong and what was left out.
impl Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} ({:.1} s)", self.layer, self.figures(), self.took.as_secs_f64())?;
        for violation in self.findings.violations.iter().take(SHOWN_MAX) {
            write!(f, "\n  VIOLATION {violation}")?;
        }
        if self.findings.violations.len() > SHOWN_MAX {
            write!(f, "\n  and {} more", self.findings.violations.len() - SHOWN_MAX)?;
        }
        for (part, missing) in &self.findings.skipped {
            write!(f, "\nSKIPPED {part}: {missing}")?;
        }
        Ok(())
    }
}

/// The end of a run.
pub(crate) fn table(lines: &[Line]) -> String {
    let mut table = format!("{:<8}  {:<9}  {:>7}  figures\n", "layer", "result", "seconds");
    for line in lines {
        let word = match (line.is_green(), line.findings.figures.is_empty()) {
            (false, _) => "VIOLATED",
            (true, true) => "SKIPPED",
            (true, false) => "ok",
        };
        table +=
            &format!("{:<8}  {word:<9}  {:>7.1}  {}\n", line.layer, line.took.as_secs_f64(), line.figures());
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(findings: Findings) -> Line {
        Line { layer: "L4", findings, took: Duration::from_millis(1_500) }
    }

    #[test]
    fn a_layer_says_its_figures_and_every_violation() {
        let mut findings = Findings::default();
        findings.figure("kills", 300);
        assert!(line(findings).to_string().starts_with("L4 kills=300 violations=0 (1.5 s)"));
        let mut findings = Findings::default();
        findings.demand(true, || "not this".to_owned());
        findings.demand(false, || "an event is lost".to_owned());
        let bad = line(findings);
        assert!(!bad.is_green());
        assert_eq!(bad.to_string(), "L4 violations=1 (1.5 s)\n  VIOLATION an event is lost");
    }

    #[test]
    fn a_layer_without_figures_was_skipped() {
        let mut findings = Findings::default();
        findings.skip("L5", "strace");
        let skipped = line(findings);
        assert!(skipped.is_green() && skipped.to_string().ends_with("SKIPPED L5: strace"));
        assert!(table(&[skipped]).contains("SKIPPED"));
    }
}
