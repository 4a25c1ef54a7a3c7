//! What the clients asked and what they know of the outcome. A broken connection is unknown, never failed.

use std::time::Duration;

/// One request: when it was sent, when its outcome was known or given up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) sent: Duration,
    pub(crate) ended: Duration,
    pub(crate) operation: Operation,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Operation {
    Ingest { event: SentEvent, known: Known<Ingested> },
    Poll { poll: SentPoll, known: Known<Vec<Shown>> },
    Ack { message: String, lease: String, known: Known<Settled> },
    Nack { message: String, lease: String, known: Known<Settled> },
}

/// What a client knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Known<T> {
    Answered(T),
    Unknown,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct SentEvent {
    pub(crate) source: String,
    pub(crate) external_id: String,
    pub(crate) topic: String,
    pub(crate) text: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Ingested {
    /// 202.
    Queued { event_id: String },
    /// 200.
    Duplicate { event_id: String },
    /// The server said no; nothing was kept.
    Refused { code: u16, error: String },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SentPoll {
    pub(crate) source: String,
    pub(crate) lease: Duration,
    pub(crate) ordered: bool,
}

/// A message as a poll showed it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Shown {
    pub(crate) message: String,
    pub(crate) lease: String,
    pub(crate) topic: String,
    pub(crate) text: String,
}

/// The answer to an ack or a nack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Settled {
    Done,
    /// 409: the lease ended.
    Conflict,
    Refused {
        code: u16,
    },
}
