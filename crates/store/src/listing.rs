//! Paging: newest first, from a row number downwards, so that a page costs the same at any depth.

use cortex_types::limits::LIST_ROWS_MAX;

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

impl<T> Page<T> {
    pub(crate) fn of(rows: Vec<T>, limit: i64, key: impl Fn(&T) -> i64) -> Self {
        let full = i64::try_from(rows.len()).is_ok_and(|count| count == limit);
        let next_before = rows.last().map(key).filter(|_| full);
        Self { rows, next_before }
    }
}
