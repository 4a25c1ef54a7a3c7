//! The store against real files: each noun's transitions, then what faults and chance do to them.

#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

mod claim;
mod full_disk;
mod group_commit;
mod inbox;
mod outbox;
mod plan;
mod poll_order;
mod recovery;
mod turn;
