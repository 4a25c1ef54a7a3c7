//! The way of a message: in, one turn, out, with what is asked and recorded on it.

pub(crate) mod approval;
pub(crate) mod channel;
pub(crate) mod checkpoint;
pub(crate) mod inbox;
pub(crate) mod outbox;
pub(crate) mod session;
pub(crate) mod shadow;
pub(crate) mod step;
pub(crate) mod topic;
pub(crate) mod trace;
pub(crate) mod turn;
pub(crate) mod watchdog;
