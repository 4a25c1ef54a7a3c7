//! What must be true of a call after its server was killed.

/// How far a call was, as the journal of the crashed server says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Progress {
    NotStarted,
    /// Its start is on record and its end is not.
    Started,
    Answered,
}

impl Progress {
    /// For the figures.
    pub(crate) const NAMED: [(&'static str, Self); 3] = [
        ("killed_before", Self::NotStarted),
        ("killed_during", Self::Started),
        ("killed_after", Self::Answered),
    ];

    /// From the kinds of the recorded steps.
    pub(crate) fn of(kinds: &[String]) -> Self {
        let has = |kind: &str| kinds.iter().any(|recorded| recorded == kind);
        match (has("tool_started"), has("tool_answered")) {
            (_, true) => Self::Answered,
            (true, false) => Self::Started,
            (false, false) => Self::NotStarted,
        }
    }
}

/// How an event stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    Done,
    Failed,
    /// It waits or is in work, although it had all the time.
    Open,
}

/// What came of a trial.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) at_crash: Progress,
    /// Calls that reached the far side, whenever they came.
    pub(crate) runs: usize,
    /// How the event stands at the end.
    pub(crate) ending: Ending,
    /// The trace's lines about the end of the call.
    pub(crate) endings: Vec<String>,
    /// Messages to the user that say that it may have run.
    pub(crate) notices: usize,
    /// Answers of the model to the user.
    pub(crate) answers: usize,
}

/// Every broken promise, in words.
pub(crate) fn judge(expected: Option<Progress>, seen: &Seen) -> Vec<String> {
    let mut broken = Vec::new();
    let mut demand = |holds: bool, otherwise: String| {
        if !holds {
            broken.push(otherwise);
        }
    };
    if let Some(expected) = expected {
        demand(seen.at_crash == expected, format!("the crash left it {:?}, not {expected:?}", seen.at_crash));
    }
    demand(seen.ending == Ending::Done, format!("the event is {:?} at the end", seen.ending));
    demand(seen.answers == 1, format!("the user got {} answers", seen.answers));
    demand(seen.runs <= 1, format!("it ran {} times", seen.runs));
    let unknown = seen.endings.iter().filter(|ending| ending.contains(" unknown: ")).count();
    demand(seen.endings.len() == 1, format!("the trace has its end {} times", seen.endings.len()));
    match seen.at_crash {
        Progress::NotStarted | Progress::Answered => {
            demand(seen.runs >= 1, "it was approved and never ran".to_owned());
            demand(unknown == 0 && seen.notices == 0, "it is unknown although everybody can know".to_owned());
        }
        Progress::Started => {
            demand(unknown == 1, "the trace does not say that its outcome is unknown".to_owned());
            demand(seen.notices == 1, format!("the user was told {} times", seen.notices));
        }
    }
    broken
}

#[cfg(test)]
mod tests {
    use super::*;

    const DONE: &str = "counter.add done";
    const UNKNOWN: &str = "counter.add unknown: the server stopped while this ran";

    fn seen(at_crash: Progress, runs: usize, ending: &str, notices: usize) -> Seen {
        Seen { at_crash, runs, ending: Ending::Done, endings: vec![ending.to_owned()], notices, answers: 1 }
    }

    fn check(seen: &Seen, complaint: &str) {
        assert_eq!(judge(Some(seen.at_crash), seen).join("; "), complaint);
    }

    #[test]
    fn what_is_as_it_must_be_is_not_complained_about() {
        check(&seen(Progress::NotStarted, 1, DONE, 0), "");
        check(&seen(Progress::Answered, 1, DONE, 0), "");
        check(&seen(Progress::Started, 0, UNKNOWN, 1), "");
        check(&seen(Progress::Started, 1, UNKNOWN, 1), "");
    }

    #[test]
    fn every_broken_promise_is_seen() {
        check(&seen(Progress::NotStarted, 2, DONE, 0), "it ran 2 times");
        check(&seen(Progress::Started, 2, UNKNOWN, 1), "it ran 2 times");
        check(&seen(Progress::NotStarted, 0, DONE, 0), "it was approved and never ran");
        check(&seen(Progress::Answered, 1, UNKNOWN, 1), "it is unknown although everybody can know");
        check(&seen(Progress::Started, 1, UNKNOWN, 0), "the user was told 0 times");
        check(&seen(Progress::Started, 1, DONE, 1), "the trace does not say that its outcome is unknown");
        let stuck = Seen { ending: Ending::Open, ..seen(Progress::NotStarted, 1, DONE, 0) };
        check(&stuck, "the event is Open at the end");
        let silent = Seen { answers: 0, ..seen(Progress::NotStarted, 1, DONE, 0) };
        check(&silent, "the user got 0 answers");
        let twice = Seen { endings: vec![DONE.to_owned(); 2], ..seen(Progress::NotStarted, 1, DONE, 0) };
        check(&twice, "the trace has its end 2 times");
        let elsewhere = judge(Some(Progress::Started), &seen(Progress::NotStarted, 1, DONE, 0));
        assert_eq!(elsewhere, ["the crash left it NotStarted, not Started"]);
    }

    #[test]
    fn the_journal_says_how_far_a_call_was() {
        let progress =
            |kinds: &[&str]| Progress::of(&kinds.iter().map(|kind| (*kind).to_owned()).collect::<Vec<_>>());
        assert_eq!(progress(&["model_answered", "approval_asked", "approval_decided"]), Progress::NotStarted);
        assert_eq!(progress(&["model_answered", "tool_started"]), Progress::Started);
        assert_eq!(progress(&["model_answered", "tool_started", "tool_answered"]), Progress::Answered);
    }
}
