//! The client against the far side of the wire.

#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

mod client;
