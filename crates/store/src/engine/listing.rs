//! Paging: newest first, from a row number downwards, so that a page costs the same at any depth.

use crate::StoreError;
use cortex_types::limits::{LIST_BYTES_MAX, LIST_ROWS_MAX};

/// What a row takes beside its long texts, roughly: ids, names and times.
pub(crate) const ROW_BYTES: usize = 512;

/// Which page of a listing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageRequest {
    /// Only rows before this one.
    pub before: Option<i64>,
    pub limit: u32,
}

impl PageRequest {
    pub fn newest(limit: u32) -> Self {
        Self { before: None, limit }
    }

    pub(crate) fn bounds(self) -> (i64, i64) {
        (self.before.unwrap_or(i64::MAX), i64::from(self.limit.clamp(1, LIST_ROWS_MAX)))
    }
}

/// Rows and where the next page begins; `None` when this was the last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page<T> {
    pub rows: Vec<T>,
    pub next_before: Option<i64>,
}

/// A row of a listing: its place, and about how many bytes it takes.
pub(crate) trait Listed {
    fn place(&self) -> i64;
    fn bytes(&self) -> usize;
}

/// Reads rows until there are `limit` of them or they hold `LIST_BYTES_MAX` bytes, whichever is first; always one.
pub(crate) fn read_page<T: Listed>(
    found: impl Iterator<Item = Result<T, StoreError>>,
    limit: i64,
) -> Result<Page<T>, StoreError> {
    let (mut rows, mut bytes) = (Vec::new(), 0);
    let mut is_full = false;
    for row in found {
        let row = row?;
        bytes += row.bytes();
        // The row that would go beyond is read again by the next page.
        if bytes > LIST_BYTES_MAX && !rows.is_empty() {
            is_full = true;
            break;
        }
        rows.push(row);
    }
    is_full |= i64::try_from(rows.len()).is_ok_and(|count| count == limit);
    let next_before = rows.last().map(Listed::place).filter(|_| is_full);
    Ok(Page { rows, next_before })
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Sized(i64, usize);

    impl Listed for Sized {
        fn place(&self) -> i64 {
            self.0
        }

        fn bytes(&self) -> usize {
            self.1
        }
    }

    /// The places of a page of rows of these sizes, and where the next one begins.
    fn check(limit: i64, sizes: &[usize], places: &[i64], next: Option<i64>) {
        let rows = (1..=i64::MAX).zip(sizes).map(|(place, bytes)| Ok(Sized(100 - place, *bytes)));
        let page = read_page(rows, limit).unwrap();
        let seen: Vec<i64> = page.rows.iter().map(Listed::place).collect();
        assert_eq!((seen.as_slice(), page.next_before), (places, next), "{limit} of {sizes:?}");
    }

    #[test]
    fn a_page_ends_by_rows_or_by_bytes_and_is_never_empty() {
        let half = LIST_BYTES_MAX / 2;
        check(3, &[1, 1], &[99, 98], None);
        check(2, &[1, 1], &[99, 98], Some(98));
        check(9, &[half, half], &[99, 98], None);
        check(9, &[half, half, 1], &[99, 98], Some(98));
        check(9, &[half, half + 1, 1], &[99], Some(99));
        check(9, &[3 * half, 1], &[99], Some(99));
        check(9, &[], &[], None);
    }
}
