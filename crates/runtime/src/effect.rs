//! The effects of a turn, one file each.

pub(crate) mod ask_approval;
pub(crate) mod call_model;
pub(crate) mod check_calls;
pub(crate) mod end_turn;
pub(crate) mod route_answer;
pub(crate) mod run_tool;
pub(crate) mod send;
