//! The tools from outside: the guard, the built-ins, and servers of others.

#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

mod calendar;
mod calendar_cache;
mod calendar_hostile;
mod child;
mod egress;
mod egress_parts;
mod egress_table;
mod http_get;
mod mcp;
mod mcp_faults;
mod mcp_flood;
mod mcp_http;
mod mcp_parts;
mod mcp_turn;
mod mcp_wait;
mod registry;
mod skill_hostile;
mod skill_load;
mod skill_parts;
mod skill_run;
mod skill_turn;
mod turn_parts;
