//! One flipped bit anywhere in the files: refused at the open, reported, or harmless; never a wrong answer (F-X1).

use crate::populated::{Answers, Populated, populate};
use cortex_store::{Store, StoreConfig, StoreThread};
use cortex_testkit::memory_folder;
use proptest::test_runner::{RngAlgorithm, TestRng};
use rand::RngCore;
use std::fs;
use std::path::Path;

/// Flips per file; the fault runs ask for more.
const FLIPS: usize = 200;

/// What became of one flip.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    /// The store did not open: damaged, of another schema, or unusable.
    Refused,
    /// It opened, and said of some row or of the file that it is damaged.
    Reported,
    /// Every answer is right.
    Harmless,
    /// The last transaction of the log is gone as a whole, as after a power loss.
    TornTail,
}
