//! Everything that descends from a process, also what left its group: found by asking the system who started whom.

use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeMap;

/// Kills what descends from `root` and still runs, and says how many that were. While `root` lives and adopts orphans,
/// nothing can leave its family, so whoever asks until the answer is zero has ended them all.
pub(super) fn kill_descendants(root: Pid) -> usize {
    let living = descendants(root.as_raw_pid(), &running());
    for process in &living {
        if let Err(error) = kill_process(*process, Signal::KILL) {
            tracing::trace!(%error, "a process had already ended");
        }
    }
    living.len()
}

/// A process as the system lists it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Listed {
    parent: i32,
    is_dead: bool,
}

/// All processes of this system by their number; none where it has no such list.
fn running() -> BTreeMap<i32, Listed> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return BTreeMap::new() };
    let numbers = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    numbers.filter_map(|number| Some((number, listed(number)?))).collect()
}

fn listed(number: i32) -> Option<Listed> {
    let line = std::fs::read(format!("/proc/{number}/stat")).ok()?;
    parse(&String::from_utf8_lossy(&line))
}

/// The name stands in parentheses and may itself have some, so the fields are counted after the last one.
fn parse(line: &str) -> Option<Listed> {
    let (_, fields) = line.rsplit_once(") ")?;
    let mut fields = fields.split(' ');
    let is_dead = matches!(fields.next()?, "Z" | "X");
    Some(Listed { parent: fields.next()?.parse().ok()?, is_dead })
}

fn descendants(root: i32, running: &BTreeMap<i32, Listed>) -> Vec<Pid> {
    let mut family = vec![root];
    let mut at = 0;
    while let Some(above) = family.get(at).copied() {
        // A process never is its own descendant, but numbers read one after the other may look so.
        let born = running.iter().filter(|(number, listed)| listed.parent == above && **number != root);
        family.extend(born.map(|(number, _)| *number));
        at += 1;
        if at > running.len() {
            break;
        }
    }
    let living = |number: &i32| running.get(number).is_some_and(|listed| !listed.is_dead);
    family.into_iter().skip(1).filter(living).filter_map(Pid::from_raw).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_pass_for_a_parent() {
        let listed = parse("7 (a) R 1 (b) S 42 7 7 0").unwrap();
        assert_eq!(listed, Listed { parent: 42, is_dead: false });
        assert!(parse("7 (dead) Z 1 7").unwrap().is_dead);
        assert_eq!(parse("7 no name"), None);
    }

    #[test]
    fn a_family_has_grandchildren_and_nobody_else() {
        let of = |parent| Listed { parent, is_dead: false };
        let dead = Listed { parent: 10, is_dead: true };
        let running =
            BTreeMap::from([(1, of(0)), (10, of(1)), (11, of(10)), (12, of(11)), (13, dead), (20, of(1))]);
        let numbers: Vec<i32> = descendants(10, &running).into_iter().map(Pid::as_raw_pid).collect();
        assert_eq!(numbers, [11, 12]);
    }
}
