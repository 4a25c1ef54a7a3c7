//! The server over its wire: every status, body and string that connectors and people rely on.

#![expect(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

mod ack;
mod approval;
mod auth;
mod bad_input;
mod channel;
mod connector;
mod contract;
mod doors;
mod engram;
mod engram_service;
mod health;
mod hook;
mod inbox;
mod ingest;
mod key;
mod limits;
mod live;
mod memory;
mod nack;
mod op;
mod openai_approval;
mod openai_chat;
mod openai_clients;
mod openai_delivery;
mod openai_parallel;
mod openai_parts;
mod openai_programs;
mod openai_refusal;
mod openai_relay;
mod openai_stopped;
mod openapi;
mod outbox;
mod poll;
mod provider;
mod sample;
mod schedule;
mod share;
mod status;
mod storage;
mod tool;
mod trace;
mod usage;
mod verbatim;
mod webhook;
