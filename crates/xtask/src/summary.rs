//! The table at the end of a test run, and what it means for the exit code.

use std::process::ExitCode;
use std::time::Duration;

pub(crate) enum Outcome {
    Passed,
    Failed,
    Skipped { missing: &'static str },
}

pub(crate) struct Line {
    pub(crate) name: &'static str,
    pub(crate) outcome: Outcome,
    pub(crate) took: Duration,
}

#[derive(Default)]
pub(crate) struct Summary {
    pub(crate) lines: Vec<Line>,
}

impl Summary {
    pub(crate) fn table(&self) -> String {
        let width = self.lines.iter().map(|line| line.name.len()).max().unwrap_or_default().max(4);
        let mut table = format!("{:<width$}  {:<24}  seconds\n", "step", "result");
        for line in &self.lines {
            let result = match line.outcome {
                Outcome::Passed => "ok".to_owned(),
                Outcome::Failed => "FAILED".to_owned(),
                Outcome::Skipped { missing } => format!("SKIPPED: {missing}"),
            };
            table += &format!("{:<width$}  {result:<24}  {:>7.1}\n", line.name, line.took.as_secs_f64());
        }
        table
    }

    /// With `require_all` a skipped suite is a failure: that is how a machine that should have everything notices.
    pub(crate) fn is_green(&self, require_all: bool) -> bool {
        self.lines.iter().all(|line| match line.outcome {
            Outcome::Passed => true,
            Outcome::Failed => false,
            Outcome::Skipped { .. } => !require_all,
        })
    }

    pub(crate) fn exit_code(&self, require_all: bool) -> ExitCode {
        if self.is_green(require_all) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary(outcomes: impl IntoIterator<Item = Outcome>) -> Summary {
        let lines =
            outcomes.into_iter().map(|outcome| Line { name: "tests", outcome, took: Duration::from_secs(2) });
        Summary { lines: lines.collect() }
    }

    #[test]
    fn a_skip_is_red_only_where_everything_is_required() {
        let skipped = summary([Outcome::Passed, Outcome::Skipped { missing: "npm" }]);
        assert!(skipped.is_green(false));
        assert!(!skipped.is_green(true));
    }

    #[test]
    fn a_failure_is_always_red() {
        assert!(!summary([Outcome::Passed, Outcome::Failed]).is_green(false));
        assert!(summary([Outcome::Passed]).is_green(true));
    }

    #[test]
    fn the_table_has_a_line_for_every_step() {
        let table = summary([Outcome::Passed, Outcome::Skipped { missing: "npm" }]).table();
        assert_eq!(
            table,
            "step   result                    seconds\n\
             tests  ok                            2.0\n\
             tests  SKIPPED: npm                  2.0\n"
        );
    }
}
