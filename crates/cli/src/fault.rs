//! Fault points, in builds for the fault runs alone: one is armed from the environment and ends the process.

use crate::environment::Environment;
use crate::terminal::talk;
use cortex_store::Durability;
use std::sync::atomic::{AtomicU32, Ordering};

/// `<point>` or `<point>:<nth hit>`.
const FAULT: &str = "CORTEX_FAULT";
const DURABILITY: &str = "CORTEX_DURABILITY";

/// Arms the point that the environment names. The process then ends there without running a destructor, as in a crash.
pub(crate) fn arm(environment: &Environment) {
    let Some(fault) = environment.get_filled(FAULT) else { return };
    let (point, nth) = read(fault);
    let (name, hits) = (point.to_owned(), AtomicU32::new(0));
    let armed = fail::cfg_callback(point, move || {
        if hits.fetch_add(1, Ordering::SeqCst) + 1 == nth {
            talk(&format!("fault point {name} reached"));
            std::process::abort();
        }
    });
    if let Err(error) = armed {
        talk(&format!("cortex: {FAULT}: {error}"));
    }
}

/// What a commit waits for. The control of the power-loss run asks for less, to show that its loss is seen.
pub(crate) fn durability(environment: &Environment) -> Durability {
    match environment.get_filled(DURABILITY) {
        Some("after-checkpoint") => Durability::AfterCheckpoint,
        Some(_) | None => Durability::Full,
    }
}

fn read(fault: &str) -> (&str, u32) {
    match fault.rsplit_once(':') {
        Some((point, nth)) => (point, nth.parse().unwrap_or(1)),
        None => (fault, 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_names_its_point_and_which_hit_it_means() {
        assert_eq!(read("store.before_commit"), ("store.before_commit", 1));
        assert_eq!(read("store.before_commit:7"), ("store.before_commit", 7));
    }

    #[test]
    fn commits_wait_for_the_disk_unless_the_control_says_otherwise() {
        let asked = |value| durability(&Environment::from_pairs([(DURABILITY, value)]));
        assert_eq!(asked("after-checkpoint"), Durability::AfterCheckpoint);
        assert_eq!(asked("full"), Durability::Full);
        assert_eq!(durability(&Environment::default()), Durability::Full);
    }
}
