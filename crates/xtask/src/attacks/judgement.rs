//! What came of an attack: it proves nothing unless its control worked.

use std::fmt::{self, Display};
use std::time::Duration;

/// What an attack saw.
#[derive(Debug, Default)]
pub(crate) struct Judgement {
    controls: usize,
    demands: usize,
    /// Controls that did not work: then the attack may have missed for another reason.
    dead_controls: Vec<String>,
    broken: Vec<String>,
    /// What was measured, for the line of the attack.
    measured: Vec<String>,
}

impl Judgement {
    /// A figure that is told whether the attack is held or not.
    pub(crate) fn measured(&mut self, what: String) {
        self.measured.push(what);
    }

    /// The same deed by somebody who may: it must work, or the attack shows nothing.
    pub(crate) fn control(&mut self, works: bool, otherwise: impl FnOnce() -> String) {
        self.controls += 1;
        if !works {
            self.dead_controls.push(otherwise());
        }
    }

    /// What must hold under the attack.
    pub(crate) fn demand(&mut self, holds: bool, otherwise: impl FnOnce() -> String) {
        self.demands += 1;
        if !holds {
            self.broken.push(otherwise());
        }
    }

    /// The attack could not be carried out as it is written.
    pub(crate) fn broke(&mut self, error: &anyhow::Error) {
        self.dead_controls.push(format!("{error:#}"));
    }

    fn verdict(&self) -> Verdict {
        if !self.broken.is_empty() {
            Verdict::NotHeld
        } else if !self.dead_controls.is_empty() || self.controls == 0 || self.demands == 0 {
            Verdict::ProvesNothing
        } else {
            Verdict::Held
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Held,
    NotHeld,
    ProvesNothing,
}

/// An attack that was carried out.
pub(crate) struct Line {
    pub(crate) name: &'static str,
    pub(crate) statement: &'static str,
    pub(crate) judgement: Judgement,
    pub(crate) took: Duration,
}

impl Line {
    pub(crate) fn is_held(&self) -> bool {
        self.judgement.verdict() == Verdict::Held
    }
}

impl Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Judgement { controls, demands, dead_controls, broken, measured } = &self.judgement;
        let word = match self.judgement.verdict() {
            Verdict::Held => "held",
            Verdict::NotHeld => "NOT HELD",
            Verdict::ProvesNothing => "NO PROOF",
        };
        let seconds = self.took.as_secs_f64();
        write!(
            f,
            "{word:<9} {:<52} {:<8} {demands} demands, {controls} controls ({seconds:.1} s)",
            self.name, self.statement
        )?;
        for what in measured {
            write!(f, "; {what}")?;
        }
        for what in broken {
            write!(f, "\n  GOT THROUGH {what}")?;
        }
        for what in dead_controls {
            write!(f, "\n  CONTROL {what}")?;
        }
        Ok(())
    }
}

/// The last lines of a run.
pub(crate) fn closing(lines: &[Line]) -> String {
    let count = |verdict| lines.iter().filter(|line| line.judgement.verdict() == verdict).count();
    let demands: usize = lines.iter().map(|line| line.judgement.demands).sum();
    format!(
        "{} attacks with {demands} demands: {} held, {} not held, {} without proof",
        lines.len(),
        count(Verdict::Held),
        count(Verdict::NotHeld),
        count(Verdict::ProvesNothing)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(judge: impl FnOnce(&mut Judgement)) -> Verdict {
        let mut judgement = Judgement::default();
        judge(&mut judgement);
        judgement.verdict()
    }

    #[test]
    fn an_attack_without_a_working_control_proves_nothing() {
        let held = |judgement: &mut Judgement| {
            judgement.control(true, String::new);
            judgement.demand(true, String::new);
        };
        assert_eq!(verdict(held), Verdict::Held);
        assert_eq!(verdict(|judgement| judgement.demand(true, String::new)), Verdict::ProvesNothing);
        assert_eq!(verdict(|judgement| judgement.control(true, String::new)), Verdict::ProvesNothing);
        let dead = |judgement: &mut Judgement| {
            judgement.control(false, String::new);
            judgement.demand(true, String::new);
        };
        assert_eq!(verdict(dead), Verdict::ProvesNothing);
    }

    #[test]
    fn what_got_through_counts_whatever_the_controls_say() {
        let through = |judgement: &mut Judgement| {
            judgement.broke(&anyhow::anyhow!("the rest was not tried"));
            judgement.demand(false, || "a stranger read it".to_owned());
        };
        assert_eq!(verdict(through), Verdict::NotHeld);
    }
}
