//! How a server is ended in a trial, and what the journal must then say.

use super::verdict::Progress;
use rand::Rng;
use std::fmt;
use std::time::Duration;

/// A moment in the life of a call at which the server ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kill {
    /// kill -9 so long after the event was accepted: around the question.
    Asking(Duration),
    /// kill -9 so long after the approval was accepted: around the call.
    Approved(Duration),
    /// kill -9 while the far side has the call and has not answered.
    During,
    /// The process ends at a fault point.
    Point(Point),
}

/// A fault point, and in which life it is armed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Point {
    pub(crate) name: &'static str,
    pub(crate) hit: u32,
    pub(crate) armed: Armed,
    /// How far the call was, exactly.
    progress: Progress,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Armed {
    WhileAsking,
    /// In a server of its own that gets the approval.
    WhenApproved,
}

/// Every place between two durable steps on the way of a call.
pub(crate) const POINTS: &[Point] = &[
    asking("turn.after_claim"),
    asking("turn.after_model"),
    asking("turn.record.before_commit"),
    asking("turn.after_record"),
    asking("approval.suspend.before_commit"),
    approved("approval.resolve.before_commit", 1, Progress::NotStarted),
    approved("turn.after_claim", 1, Progress::NotStarted),
    approved("turn.record.before_commit", 1, Progress::NotStarted),
    approved("turn.after_record", 1, Progress::Started),
    approved("tool.before_run", 1, Progress::Started),
    approved("tool.after_run", 1, Progress::Started),
    approved("turn.record.before_commit", 2, Progress::Started),
    approved("turn.after_record", 2, Progress::Answered),
    approved("turn.after_model", 1, Progress::Answered),
    approved("turn.finish.before_commit", 1, Progress::Answered),
];

const fn asking(name: &'static str) -> Point {
    Point { name, hit: 1, armed: Armed::WhileAsking, progress: Progress::NotStarted }
}

const fn approved(name: &'static str, hit: u32, progress: Progress) -> Point {
    Point { name, hit, armed: Armed::WhenApproved, progress }
}

impl Kill {
    /// One in three while the call is away; the others by the clock, most of them around the call.
    pub(crate) fn by_signal(number: usize) -> Self {
        let mut random = rand::rng();
        match number % 6 {
            0 | 3 => Self::During,
            1 => Self::Asking(Duration::from_micros(random.random_range(0..25_000))),
            _ => Self::Approved(Duration::from_micros(random.random_range(0..30_000))),
        }
    }

    /// How far the call must have been, where that is known before.
    pub(crate) fn expected(&self) -> Option<Progress> {
        match self {
            Self::Asking(_) => Some(Progress::NotStarted),
            Self::During => Some(Progress::Started),
            Self::Approved(_) => None,
            Self::Point(point) => Some(point.progress),
        }
    }
}

impl fmt::Display for Kill {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Asking(after) => write!(f, "kill {after:?} after the event"),
            Self::Approved(after) => write!(f, "kill {after:?} after the approval"),
            Self::During => f.write_str("kill during the call"),
            Self::Point(point) => write!(f, "{}:{} {:?}", point.name, point.hit, point.armed),
        }
    }
}
