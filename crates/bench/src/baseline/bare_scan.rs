//! The least a search by vectors can do: one product for each row, and the best one kept.

/// Rows of eight-bit parts behind one another.
pub(crate) struct BareScan {
    dims: usize,
    parts: Vec<i8>,
}

impl BareScan {
    pub(crate) fn new(dims: usize) -> Self {
        Self { dims, parts: Vec::new() }
    }

    pub(crate) fn put(&mut self, vector: &[f32]) {
        self.parts.extend(in_eight_bits(vector));
    }

    /// The place of the best row.
    pub(crate) fn best(&self, query: &[f32]) -> usize {
        let query: Vec<i8> = in_eight_bits(query).collect();
        let mut best = (0, i32::MIN);
        for (place, row) in self.parts.chunks_exact(self.dims).enumerate() {
            let product = product(&query, row);
            if product > best.1 {
                best = (place, product);
            }
        }
        best.0
    }
}

fn in_eight_bits(vector: &[f32]) -> impl Iterator<Item = i8> {
    let largest = vector.iter().fold(f32::MIN_POSITIVE, |largest, part| largest.max(part.abs()));
    vector.iter().map(move |part| (part / largest * f32::from(i8::MAX)).round() as i8)
}

/// In blocks, of which the compiler makes vector instructions; the dimensions are a multiple of theirs.
fn product(one: &[i8], other: &[i8]) -> i32 {
    const BLOCK: usize = 32;
    let mut sum = 0;
    for (a, b) in one.chunks_exact(BLOCK).zip(other.chunks_exact(BLOCK)) {
        let mut part = 0;
        for place in 0..BLOCK {
            part += i32::from(i16::from(a[place]) * i16::from(b[place]));
        }
        sum += part;
    }
    sum
}
