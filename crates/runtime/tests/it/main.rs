//! The flow of an event, from intake to outbox, over a real store and a real wire, on time the test moves.

#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

mod answer;
mod backlog;
mod budget;
mod crash;
mod far_side;
mod memory;
mod order;
mod poison;
mod prompt;
mod retry;
mod silence;
mod stop;
