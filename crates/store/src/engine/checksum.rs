//! A checksum per row, because SQLite pages carry none: a flipped bit must never become an answer.
//!
//! It covers what never changes in a row, and always what the row belongs to: a damaged index leads to another
//! row, which is whole but not the one that was asked for.

/// CRC-32 over the texts, each ended by a zero byte so that moved borders count as a change, and the numbers.
pub(crate) fn of(texts: &[&str], numbers: &[i64]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    for text in texts {
        hasher.update(text.as_bytes());
        hasher.update(&[0]);
    }
    for number in numbers {
        hasher.update(&number.to_le_bytes());
    }
    hasher.finalize()
}

#[cfg(test)]
mod tests {
    use super::of;

    #[test]
    fn a_moved_border_or_a_flipped_bit_changes_the_checksum() {
        assert_ne!(of(&["ab", "c"], &[1]), of(&["a", "bc"], &[1]));
        assert_ne!(of(&["a"], &[1]), of(&["c"], &[1]));
        assert_ne!(of(&["a"], &[1]), of(&["a"], &[3]));
        assert_eq!(of(&["a", "b"], &[1, 2]), of(&["a", "b"], &[1, 2]));
    }
}
