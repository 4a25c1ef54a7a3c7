//! Looks at the write-ahead log before SQLite does, because SQLite silently drops all behind a bad frame.
//!
//! A torn last transaction is what power loss leaves and is no damage: it was never acknowledged. A bad frame
//! with a later transaction behind it is damage, since each transaction is synced before the next begins, and
//! after a failed sync the log is emptied first.

use std::fs;
use std::path::{Path, PathBuf};

const HEADER_BYTES: usize = 32;
const FRAME_HEADER_BYTES: usize = 24;
const MAGIC: u32 = 0x377f_0682;

/// `Err` describes the damage.
pub(crate) fn check(database: &Path) -> Result<(), String> {
    let mut path = database.as_os_str().to_owned();
    path.push("-wal");
    match fs::read(PathBuf::from(path)) {
        Ok(log) => check_log(&log),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(format!("its write-ahead log cannot be read: {error}")),
    }
}

fn check_log(log: &[u8]) -> Result<(), String> {
    let Some(header) = log.get(..HEADER_BYTES).filter(|header| header.iter().any(|byte| *byte != 0)) else {
        return Ok(());
    };
    let big_endian = word(header, 0) & 1 == 1;
    let page_bytes = word(header, 8) as usize;
    let sum = checksum(big_endian, (0, 0), &header[..24]);
    let header_is_good = word(header, 0) & !1 == MAGIC
        && sum == (word(header, 24), word(header, 28))
        && page_bytes.is_power_of_two()
        && (512..=65_536).contains(&page_bytes);
    if !header_is_good {
        // The header fits one sector and is synced before its first frame: it is never torn.
        return if log.len() > HEADER_BYTES {
            Err("the header of its write-ahead log is broken".to_owned())
        } else {
            Ok(())
        };
    }
    let salts = (word(header, 16), word(header, 20));
    let frames: Vec<&[u8]> = log[HEADER_BYTES..].chunks_exact(FRAME_HEADER_BYTES + page_bytes).collect();
    check_frames(&frames, big_endian, salts, sum)
}

fn check_frames(
    frames: &[&[u8]],
    big_endian: bool,
    salts: (u32, u32),
    start: (u32, u32),
) -> Result<(), String> {
    let sum_after = |before: (u32, u32), frame: &[u8]| {
        let sum = checksum(big_endian, before, &frame[..8]);
        checksum(big_endian, sum, &frame[FRAME_HEADER_BYTES..])
    };
    let before = |index: usize| if index == 0 { start } else { stored_sum(frames[index - 1]) };
    let has_salts = |frame: &[u8]| (word(frame, 8), word(frame, 12)) == salts;
    let follows =
        |index: usize, before: (u32, u32)| sum_after(before, frames[index]) == stored_sum(frames[index]);
    let is_good = |index: &usize| has_salts(frames[*index]) && follows(*index, before(*index));
    let Some(bad) = (0..frames.len()).find(|index| !is_good(index)) else { return Ok(()) };
    // Each later frame is judged by the sum its predecessor stored, so one bad frame does not hide the rest; the
    // first one also by the sum the bad frame should have stored.
    let follows_bad = |index: usize| {
        index == bad + 1 && has_salts(frames[index]) && follows(index, sum_after(before(bad), frames[bad]))
    };
    let good: Vec<usize> =
        (bad + 1..frames.len()).filter(|index| is_good(index) || follows_bad(*index)).collect();
    let is_commit = |frame: &[u8]| word(frame, 4) != 0;
    // Of a bad frame either the salts or the sum still say that it belongs to this log, and one flipped bit may
    // have taken the commit mark away.
    let bad_is_commit = if is_commit(frames[bad]) {
        has_salts(frames[bad]) || follows(bad, before(bad))
    } else {
        one_flip_away(frames[bad])
            .any(|frame| is_commit(&frame) && sum_after(before(bad), &frame) == stored_sum(&frame))
    };
    let end =
        if bad_is_commit { Some(bad) } else { good.iter().copied().find(|index| is_commit(frames[*index])) };
    match end.filter(|end| good.last().is_some_and(|last| last > end)) {
        Some(_) => {
            Err(format!("frame {bad} of its write-ahead log is broken and later writes stand behind it"))
        }
        None => Ok(()),
    }
}

/// The frame with each bit of its commit mark flipped in turn.
fn one_flip_away(frame: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    (32..64).map(|bit| {
        let mut flipped = frame.to_vec();
        flipped[bit / 8] ^= 1 << (bit % 8);
        flipped
    })
}

fn stored_sum(frame: &[u8]) -> (u32, u32) {
    (word(frame, 16), word(frame, 20))
}

fn word(bytes: &[u8], at: usize) -> u32 {
    bytes[at..at + 4].iter().fold(0, |word, byte| word << 8 | u32::from(*byte))
}

/// SQLite's log checksum, cumulative over eight-byte pairs.
fn checksum(big_endian: bool, (mut first, mut second): (u32, u32), bytes: &[u8]) -> (u32, u32) {
    let word = if big_endian { u32::from_be_bytes } else { u32::from_le_bytes };
    // Written out: every page of a log passes here while a killed server starts.
    for &[a, b, c, d, e, f, g, h] in bytes.as_chunks().0 {
        first = first.wrapping_add(word([a, b, c, d])).wrapping_add(second);
        second = second.wrapping_add(word([e, f, g, h])).wrapping_add(first);
    }
    (first, second)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rusqlite::Connection;

    /// A real log of several committed transactions, copied while the database is open.
    fn log_of(transactions: usize) -> Vec<u8> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.db");
        let connection = Connection::open(&path).unwrap();
        connection
            .execute_batch("PRAGMA journal_mode=WAL; PRAGMA wal_autocheckpoint=0; CREATE TABLE t(x)")
            .unwrap();
        for number in 0..transactions {
            connection.execute("INSERT INTO t VALUES (?1)", [number.to_string().repeat(900)]).unwrap();
        }
        fs::read(folder.path().join("a.db-wal")).unwrap()
    }

    #[test]
    fn a_whole_log_and_an_empty_one_are_fine() {
        assert_eq!(check_log(&log_of(6)), Ok(()));
        assert_eq!(check_log(&[]), Ok(()));
    }

    #[test]
    fn a_torn_tail_is_not_damage() {
        let log = log_of(6);
        for cut in [1, 100, 4_000, 4_200] {
            assert_eq!(check_log(&log[..log.len() - cut]), Ok(()), "cut {cut}");
        }
    }

    #[test]
    fn a_flipped_bit_before_the_last_transaction_is_found() {
        let log = log_of(8);
        let frame = FRAME_HEADER_BYTES + 4096;
        let commits: Vec<usize> = (HEADER_BYTES..log.len())
            .step_by(frame)
            .filter(|at| word(&log, at + 4) != 0)
            .map(|at| at + frame)
            .collect();
        let last_transaction = commits[commits.len() - 2];
        let headers =
            (HEADER_BYTES..last_transaction).step_by(frame).flat_map(|at| at..at + FRAME_HEADER_BYTES);
        for at in (HEADER_BYTES..last_transaction).step_by(97).chain(headers) {
            let mut flipped = log.clone();
            flipped[at] ^= 4;
            assert!(check_log(&flipped).is_err(), "byte {at} of {}", log.len());
        }
    }
}
