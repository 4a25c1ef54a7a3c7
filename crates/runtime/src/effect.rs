//! The effects of a turn, one file each.

pub(crate) mod call_model;
pub(crate) mod end_turn;
