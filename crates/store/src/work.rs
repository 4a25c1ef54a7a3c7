//! What is done: schedules, ops, and what tools and models leave behind.

pub(crate) mod op;
pub(crate) mod schedule;
pub(crate) mod skill_db;
pub(crate) mod tool_pin;
pub(crate) mod usage;
