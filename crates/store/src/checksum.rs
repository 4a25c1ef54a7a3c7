//! A checksum per stored text, because SQLite pages carry none: a flipped bit must never become an answer.

/// CRC-32 over the parts, each ended by a zero byte so that moved borders count as a change.
pub(crate) fn of(parts: &[&str]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    for part in parts {
        hasher.update(part.as_bytes());
        hasher.update(&[0]);
    }
    hasher.finalize()
}

#[cfg(test)]
mod tests {
    use super::of;

    #[test]
    fn a_moved_border_or_a_flipped_bit_changes_the_checksum() {
        assert_ne!(of(&["ab", "c"]), of(&["a", "bc"]));
        assert_ne!(of(&["a"]), of(&["c"]));
        assert_eq!(of(&["a", "b"]), of(&["a", "b"]));
    }
}
