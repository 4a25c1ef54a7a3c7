//! The models against far sides that behave and misbehave.

#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests fail by panicking")]

mod aimock;
mod assembly;
mod bounds;
mod broken;
mod embedding;
mod failover;
mod far_side;
mod local;
mod relay;
mod request;
mod setup;
mod streaming;
