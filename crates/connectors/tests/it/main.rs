//! Connectors against the far sides of their wires: a platform that the test owns, and a real server.

#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

mod bot_api;
mod check;
mod command;
mod document;
mod door;
mod example;
mod people;
mod resume;
mod rules;
mod stage;
mod stdio;
mod words;
