//! The flow of an event, from intake to outbox, over a real store and a real wire, on time the test moves.

#![expect(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

mod answer;
mod approval;
mod away;
mod backlog;
mod budget;
mod channel;
mod compaction;
mod compactor;
mod crash;
mod damaged_question;
mod embedding_side;
mod end;
mod engram;
mod far_side;
mod gardener;
mod gardener_crash;
mod group;
mod hands;
mod images;
mod injection;
mod known_facts;
mod memory;
mod memory_tools;
mod op;
mod order;
mod planted;
mod poison;
mod prompt;
mod question;
mod quoted;
mod reembedding;
mod retry;
mod schedule;
mod silence;
mod speaker;
mod stop;
mod tool_result;
mod unasked;
mod untrusted;
