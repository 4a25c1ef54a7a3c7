//! Tools that need the flow itself, as built-ins beside those of the tools crate.

pub(crate) mod memory;
pub(crate) mod schedule;
pub(crate) mod session;
