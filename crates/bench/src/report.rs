//! The report of a benchmark: figures, each a median over rounds with its range, goal and verdict.

use crate::machine::Machine;
use crate::options::{BenchName, Scale};
use crate::sample::median;
use serde::Serialize;

/// Over this spread of the baseline, a ratio says more about the machine than about the product.
const BASELINE_SPREAD_MAX: f64 = 2.0;

/// What a benchmark found.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    pub name: BenchName,
    /// The worst of all figures and checks.
    pub verdict: Verdict,
    /// The median of the first figure, with its goal and rounds; `figures` has it again, with the others.
    pub ratio: f64,
    #[serde(flatten)]
    pub goal: Goal,
    pub rounds: Vec<Round>,
    pub figures: Vec<Figure>,
    pub checks: Vec<Check>,
    pub facts: Vec<SideFigure>,
    #[serde(flatten)]
    machine: Machine,
}

/// One judged number.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Figure {
    pub what: String,
    pub verdict: Verdict,
    /// The median over the rounds.
    pub ratio: f64,
    /// The least and the most of the rounds.
    pub range: [f64; 2],
    #[serde(flatten)]
    pub goal: Goal,
    pub unit: Unit,
    /// The medians of A and B.
    pub a: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub b: Option<f64>,
    /// What A and B are counted in.
    pub of: &'static str,
    pub rounds: Vec<Round>,
}

/// A and B measured after each other, and the number that is judged.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Round {
    pub a: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub b: Option<f64>,
    pub ratio: f64,
}

/// What the judged number is counted in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Unit {
    #[serde(rename = "x")]
    Times,
    #[serde(rename = "s")]
    Seconds,
    #[serde(rename = "ms")]
    Milliseconds,
    #[serde(rename = "MB")]
    Megabytes,
    #[serde(rename = "/s")]
    PerSecond,
}

impl Unit {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Times => "×",
            Self::Seconds => " s",
            Self::Milliseconds => " ms",
            Self::Megabytes => " MB",
            Self::PerSecond => " /s",
        }
    }
}

/// Where the median has to be.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Goal {
    #[serde(rename = "goal")]
    pub value: f64,
    #[serde(rename = "goalIs")]
    pub bound: Bound,
}

/// Which side of a goal is good.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Bound {
    AtLeast,
    AtMost,
}

impl Goal {
    pub(crate) const fn at_least(value: f64) -> Self {
        Self { value, bound: Bound::AtLeast }
    }

    pub(crate) const fn at_most(value: f64) -> Self {
        Self { value, bound: Bound::AtMost }
    }

    fn is_met(self, ratio: f64) -> bool {
        match self.bound {
            Bound::AtLeast => ratio >= self.value,
            Bound::AtMost => ratio <= self.value,
        }
    }

    /// How far on the good side: 1 is just met, 2 is twice as good.
    pub(crate) fn margin(self, ratio: f64) -> f64 {
        match self.bound {
            Bound::AtLeast => ratio / self.value,
            Bound::AtMost => self.value / ratio,
        }
    }
}

/// How a figure stands to its goal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    Met,
    /// A smoke run does not judge.
    NotJudged,
    /// The baseline or the disk was too restless, or the folder is not on a disk.
    NoVerdict,
    Missed,
    /// Something happened that must never happen.
    Broken,
}

impl Verdict {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Met => "met",
            Self::NotJudged => "not judged",
            Self::NoVerdict => "no verdict",
            Self::Missed => "missed",
            Self::Broken => "broken",
        }
    }
}

/// Something that must not happen even once, and how often it did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Check {
    pub what: &'static str,
    /// How many were looked at.
    pub of: u64,
    pub violations: u64,
}

/// A number worth knowing that no goal judges.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SideFigure {
    pub what: String,
    pub value: f64,
    pub unit: &'static str,
}

impl SideFigure {
    pub(crate) fn new(what: impl Into<String>, value: f64, unit: &'static str) -> Self {
        Self { what: what.into(), value, unit }
    }
}

/// A figure before it is judged.
pub(crate) struct Measured {
    pub(crate) what: String,
    pub(crate) goal: Goal,
    pub(crate) unit: Unit,
    pub(crate) of: &'static str,
    pub(crate) rounds: Vec<Round>,
}

impl Measured {
    /// A divided by B, round by round.
    pub(crate) fn ratio(
        what: impl Into<String>,
        goal: Goal,
        of: &'static str,
        pairs: impl IntoIterator<Item = (f64, f64)>,
    ) -> Self {
        let rounds = pairs.into_iter().map(|(a, b)| Round { a, b: Some(b), ratio: a / b }).collect();
        Self { what: what.into(), goal, unit: Unit::Times, of, rounds }
    }

    fn judge(self, scale: Scale, machine: &Machine) -> Figure {
        let Self { what, goal, unit, of, rounds } = self;
        let ratio = median(rounds.iter().map(|round| round.ratio));
        let has_b = rounds.iter().any(|round| round.b.is_some());
        let verdict = match scale {
            Scale::Smoke => Verdict::NotJudged,
            Scale::Full if baseline_spread(&rounds) > BASELINE_SPREAD_MAX || !machine.has_a_steady_disk() => {
                Verdict::NoVerdict
            }
            Scale::Full if goal.is_met(ratio) => Verdict::Met,
            Scale::Full => Verdict::Missed,
        };
        Figure {
            what,
            verdict,
            ratio,
            range: range(rounds.iter().map(|round| round.ratio)),
            goal,
            unit,
            a: median(rounds.iter().map(|round| round.a)),
            b: has_b.then(|| median(rounds.iter().filter_map(|round| round.b))),
            of,
            rounds,
        }
    }
}

/// What a workload hands over to be judged.
pub(crate) struct Findings {
    pub(crate) headline: Measured,
    pub(crate) more: Vec<Measured>,
    pub(crate) checks: Vec<Check>,
    pub(crate) facts: Vec<SideFigure>,
}

impl Findings {
    pub(crate) fn of(headline: Measured) -> Self {
        Self { headline, more: Vec::new(), checks: Vec::new(), facts: Vec::new() }
    }
}

impl Report {
    pub(crate) fn new(name: BenchName, findings: Findings, scale: Scale, machine: Machine) -> Self {
        let Findings { headline, more, checks, facts } = findings;
        let headline = headline.judge(scale, &machine);
        let (ratio, goal, rounds) = (headline.ratio, headline.goal, headline.rounds.clone());
        let more = more.into_iter().map(|measured| measured.judge(scale, &machine));
        let figures: Vec<Figure> = std::iter::once(headline).chain(more).collect();
        let broken = checks.iter().any(|check| check.violations > 0).then_some(Verdict::Broken);
        let verdict = figures.iter().map(|figure| figure.verdict).chain(broken).max();
        let verdict = verdict.unwrap_or(Verdict::NoVerdict);
        Self { name, verdict, ratio, goal, rounds, figures, checks, facts, machine }
    }

    pub fn load_average(&self) -> f64 {
        self.machine.load_average
    }

    /// Before and after the run.
    pub fn fdatasync_p50_ms(&self) -> [f64; 2] {
        [self.machine.fdatasync_p50_ms, self.machine.fdatasync_p50_after_ms]
    }

    /// Whether the command that made this report has to fail.
    pub fn is_bad(&self) -> bool {
        match self.verdict {
            Verdict::Met | Verdict::NotJudged | Verdict::NoVerdict => false,
            Verdict::Missed | Verdict::Broken => true,
        }
    }
}

fn range(values: impl Iterator<Item = f64> + Clone) -> [f64; 2] {
    [values.clone().fold(f64::INFINITY, f64::min), values.fold(f64::NEG_INFINITY, f64::max)]
}

/// The most of B over the least of B; 1 without a B.
fn baseline_spread(rounds: &[Round]) -> f64 {
    let [least, most] = range(rounds.iter().filter_map(|round| round.b));
    if least > most { 1.0 } else { most / least }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DISK: Machine =
        Machine { load_average: 0.1, fdatasync_p50_ms: 0.2, fdatasync_p50_after_ms: 0.3, cores: 2 };

    #[track_caller]
    fn check(goal: Goal, pairs: &[(f64, f64)], scale: Scale, machine: Machine, expected: Verdict) {
        let measured = Measured::ratio("a/b", goal, "req/s", pairs.iter().copied());
        assert_eq!(measured.judge(scale, &machine).verdict, expected);
    }

    #[test]
    fn a_goal_is_judged_on_the_median_unless_the_baseline_is_restless() {
        let steady = [(3.0, 10.0), (4.0, 10.0), (9.0, 10.0)];
        check(Goal::at_least(0.35), &steady, Scale::Full, DISK, Verdict::Met);
        check(Goal::at_least(0.45), &steady, Scale::Full, DISK, Verdict::Missed);
        check(Goal::at_most(0.35), &steady, Scale::Full, DISK, Verdict::Missed);
        check(Goal::at_least(0.45), &steady, Scale::Smoke, DISK, Verdict::NotJudged);
        let restless = [(3.0, 10.0), (4.0, 21.0), (9.0, 10.0)];
        check(Goal::at_least(0.35), &restless, Scale::Full, DISK, Verdict::NoVerdict);
    }

    #[test]
    fn a_folder_in_memory_or_on_a_restless_disk_gets_no_verdict() {
        let memory = Machine { fdatasync_p50_ms: 0.001, fdatasync_p50_after_ms: 0.001, ..DISK };
        let restless = Machine { fdatasync_p50_after_ms: 0.5, ..DISK };
        for machine in [memory, restless] {
            check(Goal::at_least(0.1), &[(1.0, 1.0)], Scale::Full, machine, Verdict::NoVerdict);
        }
    }

    #[test]
    fn one_violation_breaks_a_report_even_in_a_smoke_run() {
        let measured = || Measured::ratio("a/b", Goal::at_least(0.1), "req/s", [(1.0, 1.0)]);
        let report = |violations| {
            let check = Check { what: "double leases", of: 9, violations };
            let findings = Findings { checks: vec![check], ..Findings::of(measured()) };
            Report::new(BenchName::OutboxDrain, findings, Scale::Smoke, DISK)
        };
        assert!(!report(0).is_bad());
        assert!(report(1).is_bad());
        assert_eq!(report(1).verdict, Verdict::Broken);
    }

    #[test]
    fn the_json_of_a_report_leads_with_its_first_figure() {
        let findings = Findings::of(Measured::ratio("a/b", Goal::at_least(0.35), "req/s", [(4.0, 8.0)]));
        let report = Report::new(BenchName::IngestThroughput, findings, Scale::Full, DISK);
        let json = serde_json::to_value(&report).unwrap();
        assert_eq!(json["name"], "ingest-throughput");
        assert_eq!(json["ratio"], 0.5);
        assert_eq!(json["goal"], 0.35);
        assert_eq!(json["rounds"][0]["b"], 8.0);
        assert_eq!(json["verdict"], "met");
        assert_eq!(json["fdatasyncP50Ms"], 0.2);
    }
}
