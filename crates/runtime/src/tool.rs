//! Tools that need the flow itself, as built-ins beside those of the tools crate.

pub(crate) mod schedule;
