//! The flow of an event, from intake to outbox, over a real store and a real wire, on time the test moves.

#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

mod answer;
mod approval;
mod backlog;
mod budget;
mod crash;
mod embedding_side;
mod far_side;
mod hands;
mod injection;
mod memory;
mod memory_tools;
mod order;
mod poison;
mod prompt;
mod question;
mod reembedding;
mod retry;
mod schedule;
mod silence;
mod stop;
mod tool_result;
mod unasked;
