//! The table of the built-in embedder: one int8 vector and one scale for each token, read where it lies in the binary.

use std::collections::HashMap;
use std::sync::LazyLock;

pub(super) const DIMS: usize = 256;
const TOKENS: usize = 30_522;
const HEADER_BYTES: usize = 40;
const SCALES_BYTES: usize = TOKENS * 4;
const ROWS_BYTES: usize = TOKENS * DIMS;

static BYTES: &[u8] = include_bytes!("../../assets/embedder.bin");
static BUILT_IN: LazyLock<Table> = LazyLock::new(Table::open);

/// Tokens by their text, and where their rows are.
pub(super) struct Table {
    ids: HashMap<&'static str, u32>,
}

impl Table {
    pub(super) fn built_in() -> &'static Self {
        &BUILT_IN
    }

    /// The file is part of the program; the test beside this proves that it is the right one.
    fn open() -> Self {
        let tokens = BYTES.get(HEADER_BYTES + SCALES_BYTES + ROWS_BYTES..).unwrap_or_default();
        let tokens = std::str::from_utf8(tokens).unwrap_or_default().split('\n');
        Self { ids: (0..).zip(tokens).map(|(id, token)| (token, id)).collect() }
    }

    pub(super) fn id(&self, token: &str) -> Option<u32> {
        self.ids.get(token).copied()
    }

    /// Adds a token's vector.
    pub(super) fn add_row(&self, id: u32, sum: &mut [f32; DIMS]) {
        let id = id as usize;
        let (Some(scale), Some(row)) = (scale(id), row(id)) else { return };
        for (part, value) in sum.iter_mut().zip(row) {
            *part += scale * f32::from(value.cast_signed());
        }
    }
}

fn scale(id: usize) -> Option<f32> {
    let at = HEADER_BYTES + id * 4;
    BYTES.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()).map(f32::from_le_bytes)
}

fn row(id: usize) -> Option<&'static [u8]> {
    let at = HEADER_BYTES + SCALES_BYTES + id * DIMS;
    BYTES.get(at..at + DIMS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(at: usize) -> u32 {
        u32::from_le_bytes(BYTES[at..at + 4].try_into().unwrap())
    }

    #[test]
    fn the_file_is_the_one_this_code_reads() {
        assert_eq!(&BYTES[..8], b"WPSTATIC");
        let header: Vec<u32> = [8, 12, 16, 20, 24].into_iter().map(number).collect();
        assert_eq!(header, [1, TOKENS as u32, DIMS as u32, 1, super::super::wordpiece::UNKNOWN]);
        assert_eq!(BYTES.len(), HEADER_BYTES + SCALES_BYTES + ROWS_BYTES + number(28) as usize);
        assert_eq!(crc32fast::hash(&BYTES[HEADER_BYTES..]), number(32));
        assert_eq!(Table::built_in().ids.len(), TOKENS);
    }
}
