//! The benchmarks themselves: each runs, checks what it measures, and leaves nothing behind.

#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

mod smoke;
