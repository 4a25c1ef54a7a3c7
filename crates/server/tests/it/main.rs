//! The server over its wire: every status, body and string that connectors and people rely on.

#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

mod ack;
mod auth;
mod bad_input;
mod channel;
mod doors;
mod health;
mod inbox;
mod ingest;
mod limits;
mod live;
mod nack;
mod openapi;
mod outbox;
mod poll;
mod provider;
mod sample;
mod status;
mod storage;
mod trace;
mod usage;
