//! L1 for memory: facts told, merged, forgotten, gone cold and back, embedded anew, and what was said indexed, with kills.

mod model;
mod world;

use super::asked;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};
use world::World;

const SEQUENCES: u32 = 100;
const STEPS_MAX: usize = 25;

/// One step; places are taken modulo what there is.
#[derive(Debug, Clone)]
enum Operation {
    Do(Change),
    AdvanceDays(i64),
    Crash,
    /// Killed while it does one more thing, whose outcome nobody was told.
    CrashDuring(Change),
    Restart,
}

/// Something that changes the store.
#[derive(Debug, Clone)]
enum Change {
    Remember {
        key: Option<u8>,
        upsert: bool,
        /// The fact that says the same.
        like: Option<usize>,
    },
    Edit(usize),
    Pin(usize),
    Unpin(usize),
    Forget(usize),
    Touch(usize),
    Evict,
    /// A message and its answer.
    Say,
    IndexTurns(u32),
    Reembed {
        turns: bool,
        model: u8,
        limit: u32,
    },
}

/// A fault that is planted to be seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Seeded {
    Nothing,
    /// A merge forgets what the second source said.
    SourceForgotten,
    /// The cursor moves and the index does not.
    CursorAlone,
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        6 => (proptest::option::of(0..4_u8), any::<bool>(), proptest::option::of(0..20_usize))
            .prop_map(|(key, upsert, like)| Change::Remember { key, upsert, like }),
        1 => (0..20_usize).prop_map(Change::Edit),
        1 => (0..20_usize).prop_map(Change::Pin),
        1 => (0..20_usize).prop_map(Change::Unpin),
        2 => (0..20_usize).prop_map(Change::Forget),
        2 => (0..20_usize).prop_map(Change::Touch),
        2 => Just(Change::Evict),
        3 => Just(Change::Say),
        3 => (1..4_u32).prop_map(Change::IndexTurns),
        2 => (any::<bool>(), 0..2_u8, 1..4_u32)
            .prop_map(|(turns, model, limit)| Change::Reembed { turns, model, limit }),
    ]
}

fn operations() -> impl Strategy<Value = Vec<Operation>> {
    let one = prop_oneof![
        12 => change().prop_map(Operation::Do),
        3 => (1..20_i64).prop_map(Operation::AdvanceDays),
        2 => change().prop_map(Operation::CrashDuring),
        1 => Just(Operation::Crash),
        1 => Just(Operation::Restart),
    ];
    proptest::collection::vec(one, 1..STEPS_MAX)
}

/// The first broken promise, shortened.
fn run(sequences: u32, seed: u32, seeded: Seeded) -> Option<String> {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let max_shrink_iters = if seeded == Seeded::Nothing { 200 } else { 0 };
    let config =
        Config { cases: sequences, failure_persistence: None, max_shrink_iters, ..Config::default() };
    let mut seed_bytes = [0; 32];
    seed_bytes[..4].copy_from_slice(&seed.to_le_bytes());
    let mut runner = TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &seed_bytes));
    let outcome = runner.run(&operations(), |operations| {
        runtime.block_on(World::create(seeded).run(&operations)).map_err(TestCaseError::fail)
    });
    outcome.err().map(|error| match error {
        TestError::Fail(reason, sequence) => format!("{reason}\nin {sequence:#?}"),
        TestError::Abort(reason) => reason.to_string(),
    })
}

#[test]
fn memory_loses_nothing_and_doubles_nothing() {
    // The inbox's sequences are many and short; one of these checks every index after every step.
    let sequences = asked("CORTEX_L1_SEQUENCES").map_or(SEQUENCES, |asked| asked / 4);
    let violation = run(sequences, asked("CORTEX_L1_SEED").unwrap_or(1), Seeded::Nothing);
    println!("L1 memory: sequences={sequences} violations={}", u32::from(violation.is_some()));
    assert!(violation.is_none(), "{}", violation.unwrap());
}

#[track_caller]
fn caught(seeded: Seeded, promise: &str) {
    let violation = run(SEQUENCES, 1, seeded).expect("the seeded fault went unseen");
    assert!(violation.starts_with(promise), "{violation}");
}

#[test]
fn a_merge_that_forgets_a_source_is_caught() {
    caught(Seeded::SourceForgotten, "facts: ");
}

#[test]
fn a_cursor_that_runs_ahead_of_its_index_is_caught() {
    caught(Seeded::CursorAlone, "full text of turns: ");
}
