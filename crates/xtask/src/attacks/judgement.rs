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
    /// Why this machine cannot carry the attack out.
    skipped: Option<String>,
}

impl Judgement {
    /// A figure that is told whether the attack is held or not.
    pub(crate) fn measured(&mut self, what: String) {
        self.measured.push(what);
    }

    /// This machine lacks what the attack needs. What was demanded until then still counts when it did not hold.
    pub(crate) fn skip(&mut self, why: &str) {
        self.skipped = Some(why.to_owned());
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
        } else if self.dead_controls.is_empty() && self.skipped.is_some() {
            Verdict::Skipped
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
    /// It could not be tried here.
    Skipped,
}

/// An attack that was carried out.
pub(crate) struct Line {
    pub(crate) name: &'static str,
    pub(crate) statement: &'static str,
    pub(crate) judgement: Judgement,
    pub(crate) took: Duration,
}

impl Line {
    /// With `require_all` a skipped attack is a failure: that is how a machine that should have everything notices.
    pub(crate) fn is_green(&self, require_all: bool) -> bool {
        match self.judgement.verdict() {
            Verdict::Held => true,
            Verdict::NotHeld | Verdict::ProvesNothing => false,
            Verdict::Skipped => !require_all,
        }
    }
}

impl Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Judgement { controls, demands, dead_controls, broken, measured, skipped } = &self.judgement;
        let word = match self.judgement.verdict() {
            Verdict::Held => "held",
            Verdict::NotHeld => "NOT HELD",
            Verdict::ProvesNothing => "NO PROOF",
            Verdict::Skipped => "SKIPPED",
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
        if let Some(why) = skipped {
            write!(f, "; not tried: {why}")?;
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

/// The last line of a run; it names what was skipped, and why.
pub(crate) fn closing(lines: &[Line]) -> String {
    let count = |verdict| lines.iter().filter(|line| line.judgement.verdict() == verdict).count();
    let demands: usize = lines.iter().map(|line| line.judgement.demands).sum();
    let skipped: Vec<String> = lines
        .iter()
        .filter(|line| line.judgement.verdict() == Verdict::Skipped)
        .map(|line| format!("{}: {}", line.name, line.judgement.skipped.as_deref().unwrap_or_default()))
        .collect();
    let which = if skipped.is_empty() { String::new() } else { format!(" ({})", skipped.join("; ")) };
    format!(
        "{} attacks with {demands} demands: {} held, {} not held, {} without proof, {} skipped{which}",
        lines.len(),
        count(Verdict::Held),
        count(Verdict::NotHeld),
        count(Verdict::ProvesNothing),
        skipped.len()
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

    fn line(judge: impl FnOnce(&mut Judgement)) -> Line {
        let mut judgement = Judgement::default();
        judge(&mut judgement);
        Line { name: "sample", statement: "1", judgement, took: Duration::ZERO }
    }

    #[test]
    fn a_skipped_attack_is_named_with_its_reason_and_red_only_where_everything_is_required() {
        let skipped = |judgement: &mut Judgement| {
            judgement.control(true, String::new);
            judgement.skip("nobody is root here");
        };
        assert!(line(skipped).is_green(false) && !line(skipped).is_green(true));
        let told = closing(&[line(skipped)]);
        assert!(told.ends_with("1 skipped (sample: nobody is root here)"), "{told}");
    }

    #[test]
    fn a_skip_hides_neither_what_got_through_nor_a_dead_control() {
        let through = |judgement: &mut Judgement| {
            judgement.demand(false, || "a stranger read it".to_owned());
            judgement.skip("no kernel for the rest");
        };
        let dead = |judgement: &mut Judgement| {
            judgement.control(false, || "nothing answers".to_owned());
            judgement.skip("no kernel for the rest");
        };
        assert_eq!((verdict(through), verdict(dead)), (Verdict::NotHeld, Verdict::ProvesNothing));
        assert!(!line(through).is_green(false) && !line(dead).is_green(false));
    }
}
