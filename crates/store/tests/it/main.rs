//! The store against real files: each noun's transitions, then what faults and chance do to them.

#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests fail by panicking")]

mod claim;
mod inbox;
mod recovery;
