//! L1: random sequences of everything that can happen, with kills and a clock that jumps, against a plain model.
//!
//! A short run by default; `CORTEX_L1_SEQUENCES` asks for more and `CORTEX_L1_SEED` for others.

use operation::Sequence;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};
use std::cell::RefCell;
use world::{Seeded, World};

mod approval_model;
mod approval_steps;
mod end_steps;
mod inbox_model;
mod inbox_steps;
mod memory;
mod operation;
mod outbox_model;
mod outbox_steps;
mod promise;
mod schedule_model;
mod schedule_steps;
mod world;

const SEQUENCES: u32 = 300;

/// What a run of many sequences came to.
struct Ran {
    sequences: u32,
    steps: u64,
    violation: Option<String>,
}

fn asked(variable: &str) -> Option<u32> {
    std::env::var(variable).ok().map(|text| text.parse().expect(variable))
}

/// Runs sequences until one breaks a promise; that one is shortened before it is told.
fn run(sequences: u32, seed: u32, seeded: Seeded) -> Ran {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let world = RefCell::new(World::create(seeded));
    let steps = RefCell::new(0);
    // A seeded fault is only to be seen; a real one is worth the time to make it short.
    let max_shrink_iters = if seeded == Seeded::Nothing { 400 } else { 0 };
    let config =
        Config { cases: sequences, failure_persistence: None, max_shrink_iters, ..Config::default() };
    let mut seed_bytes = [0; 32];
    seed_bytes[..4].copy_from_slice(&seed.to_le_bytes());
    let mut runner = TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &seed_bytes));
    let outcome = runner.run(&operation::sequences(), |sequence: Sequence| {
        let mut world = world.borrow_mut();
        let checked = runtime.block_on(world.run(&sequence));
        if let Err(violation) = checked {
            *steps.borrow_mut() += world.steps;
            *world = World::create(seeded);
            return Err(TestCaseError::fail(violation));
        }
        Ok(())
    });
    let violation = outcome.err().map(|error| match error {
        TestError::Fail(reason, sequence) => format!("{reason}\nin {sequence:#?}"),
        TestError::Abort(reason) => reason.to_string(),
    });
    Ran { sequences, steps: steps.into_inner() + world.into_inner().steps, violation }
}

#[test]
fn every_sequence_keeps_its_promises() {
    let sequences = asked("CORTEX_L1_SEQUENCES").unwrap_or(SEQUENCES);
    let seed = asked("CORTEX_L1_SEED").unwrap_or(1);
    let workers = std::thread::available_parallelism().map_or(2, |count| u32::try_from(count.get()).unwrap());
    let threads: Vec<_> = (0..workers)
        .map(|worker| {
            let share = sequences / workers + u32::from(worker < sequences % workers);
            std::thread::spawn(move || {
                run(share, seed.wrapping_mul(1_000).wrapping_add(worker), Seeded::Nothing)
            })
        })
        .collect();
    let ran: Vec<Ran> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
    let violations: Vec<&String> = ran.iter().filter_map(|ran| ran.violation.as_ref()).collect();
    println!(
        "L1 sequences={} steps={} violations={}",
        ran.iter().map(|ran| ran.sequences).sum::<u32>(),
        ran.iter().map(|ran| ran.steps).sum::<u64>(),
        violations.len()
    );
    assert!(violations.is_empty(), "{}", violations[0]);
}

/// Runs with a planted fault and demands that it is named as what it is.
fn caught(seeded: Seeded, promise: &str) {
    let violation = run(SEQUENCES, 1, seeded).violation.expect("the seeded fault went unseen");
    assert!(violation.starts_with(promise), "{violation}");
}

#[test]
fn an_ack_before_commit_is_caught() {
    caught(Seeded::AckBeforeCommit, "I1: ");
}

#[test]
fn a_question_that_opens_again_is_caught() {
    caught(Seeded::DecisionForgotten, "I6: ");
}

#[test]
fn a_message_that_the_old_release_forgets_is_caught() {
    caught(Seeded::OldRelease, "I5: ");
}

#[test]
fn a_count_that_is_not_clamped_is_caught() {
    caught(Seeded::UnclampedCount, "I5: ");
}

#[test]
fn a_slot_that_is_forgotten_is_caught() {
    caught(Seeded::SlotForgotten, "I10: ");
}
