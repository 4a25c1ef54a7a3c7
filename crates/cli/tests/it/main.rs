//! The `cortex` binary as people and programs meet it.

#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

mod approval;
mod backup;
mod bench;
mod bot_api;
mod canary;
mod channel;
mod config_errors;
mod config_listing;
mod config_mistake;
mod config_precedence;
mod config_secret;
mod connect;
mod connector;
mod connector_check;
mod cortex;
mod doctor;
mod doctor_skill;
mod exit_codes;
mod flood;
mod help;
mod home;
mod lifecycle;
mod memory;
mod output;
mod restart;
mod restore;
mod rows;
mod schedule;
mod skill;
mod socket;
mod storage;
mod talk;
mod trust;
