//! Telegram and its kin: processes that know only the wire.

mod check;

pub use check::{ConformanceCheck, Finding, Promise, PromiseState};
