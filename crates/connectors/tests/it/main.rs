//! Connectors against the far sides of their wires: a platform that the test owns, and a real server.

#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

mod bot_api;
mod check;
mod command;
mod discord;
mod discord_api;
mod document;
mod door;
mod example;
mod homeserver;
mod ledger;
mod matrix;
mod people;
mod resume;
mod rules;
mod slack;
mod slack_api;
mod stage;
mod stdio;
mod verbatim;
mod words;
