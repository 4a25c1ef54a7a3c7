//! Vectors in memory: eight bits a part, scanned exactly. Below some 200,000 rows no graph is faster than that.

use std::collections::HashMap;

/// A vector of length 1 in eight bits a part.
#[derive(Debug, Clone, PartialEq)]
pub struct Int8Vector {
    scale: f32,
    parts: Vec<i8>,
}

impl Int8Vector {
    pub fn of(vector: &[f32]) -> Self {
        let largest = vector.iter().fold(0.0_f32, |largest, part| largest.max(part.abs()));
        let scale = if largest > 0.0 { largest / f32::from(i8::MAX) } else { 0.0 };
        let part = |part: &f32| if scale > 0.0 { (part / scale).round() as i8 } else { 0 };
        Self { scale, parts: vector.iter().map(part).collect() }
    }

    pub fn dims(&self) -> usize {
        self.parts.len()
    }

    /// The scale, then the parts, as they are stored.
    pub fn to_bytes(&self) -> Vec<u8> {
        let parts = self.parts.iter().map(|part| part.cast_unsigned());
        self.scale.to_le_bytes().into_iter().chain(parts).collect()
    }

    /// `None` when the bytes are not those of a vector.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (scale, parts) = bytes.split_first_chunk::<4>()?;
        let scale = f32::from_le_bytes(*scale);
        scale
            .is_finite()
            .then(|| Self { scale, parts: parts.iter().map(|part| part.cast_signed()).collect() })
    }

    /// Each part as f32, as other programs read vectors.
    pub fn to_f32_bytes(&self) -> Vec<u8> {
        self.to_f32().into_iter().flat_map(f32::to_le_bytes).collect()
    }

    /// `None` when the bytes are not those of a vector.
    pub fn from_f32_bytes(bytes: &[u8]) -> Option<Self> {
        let (parts, rest) = bytes.as_chunks::<4>();
        let parts: Vec<f32> = parts.iter().map(|part| f32::from_le_bytes(*part)).collect();
        (rest.is_empty() && parts.iter().all(|part| part.is_finite())).then(|| Self::of(&parts))
    }

    pub fn to_f32(&self) -> Vec<f32> {
        self.parts.iter().map(|part| f32::from(*part) * self.scale).collect()
    }
}

/// Rows of vectors with a tag each, kept in step with the store.
#[derive(Debug, Default)]
pub struct VectorIndex {
    dims: usize,
    ids: Vec<i64>,
    tags: Vec<u32>,
    scales: Vec<f32>,
    parts: Vec<i8>,
    places: HashMap<i64, usize>,
}

impl VectorIndex {
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// Puts or replaces a row. The first one says how many dimensions there are; one of others has no place here, and
    /// the answer is then false.
    pub fn put(&mut self, id: i64, tag: u32, vector: &Int8Vector) -> bool {
        if self.ids.is_empty() {
            self.dims = vector.dims();
        }
        if vector.dims() != self.dims {
            return false;
        }
        match self.places.get(&id).copied() {
            Some(place) => {
                self.tags[place] = tag;
                self.scales[place] = vector.scale;
                self.parts[place * self.dims..][..self.dims].copy_from_slice(&vector.parts);
            }
            None => {
                self.places.insert(id, self.ids.len());
                self.ids.push(id);
                self.tags.push(tag);
                self.scales.push(vector.scale);
                self.parts.extend_from_slice(&vector.parts);
            }
        }
        true
    }

    pub fn remove(&mut self, id: i64) {
        let Some(place) = self.places.remove(&id) else { return };
        let last = self.ids.len() - 1;
        self.ids.swap_remove(place);
        self.tags.swap_remove(place);
        self.scales.swap_remove(place);
        if place < last {
            self.places.insert(self.ids[place], place);
            let (rows, moved) = self.parts.split_at_mut(last * self.dims);
            rows[place * self.dims..][..self.dims].copy_from_slice(moved);
        }
        self.parts.truncate(last * self.dims);
    }

    /// The `limit` rows nearest to `query` whose tag is wanted, each with its cosine, best first.
    pub fn nearest(
        &self,
        query: &Int8Vector,
        limit: usize,
        is_wanted: impl Fn(u32) -> bool,
    ) -> Vec<(i64, f32)> {
        if query.dims() != self.dims || self.dims == 0 || limit == 0 {
            return Vec::new();
        }
        let mut best = Best::new(limit);
        for (place, row) in self.parts.chunks_exact(self.dims).enumerate() {
            let cosine = dot(&query.parts, row) as f32 * query.scale * self.scales[place];
            if cosine > best.worst && is_wanted(self.tags[place]) {
                best.take(place, cosine);
            }
        }
        best.sorted().into_iter().map(|(place, cosine)| (self.ids[place], cosine)).collect()
    }
}

/// Plain loops over fixed blocks: the compiler makes vector instructions of them.
fn dot(one: &[i8], other: &[i8]) -> i32 {
    const BLOCK: usize = 32;
    let mut sum = 0_i32;
    let (blocks, rest) = (one.chunks_exact(BLOCK), one.chunks_exact(BLOCK).remainder());
    let tail = &other[other.len() - other.len() % BLOCK..];
    for (a, b) in blocks.zip(other.chunks_exact(BLOCK)) {
        let mut part = 0_i32;
        for place in 0..BLOCK {
            part += i32::from(i16::from(a[place]) * i16::from(b[place]));
        }
        sum += part;
    }
    sum + rest.iter().zip(tail).map(|(a, b)| i32::from(*a) * i32::from(*b)).sum::<i32>()
}

/// The best few of many: most rows fail one comparison.
struct Best {
    limit: usize,
    rows: Vec<(usize, f32)>,
    /// A row must be better than this to come in.
    worst: f32,
}

impl Best {
    fn new(limit: usize) -> Self {
        Self { limit, rows: Vec::with_capacity(limit * 2), worst: f32::NEG_INFINITY }
    }

    fn take(&mut self, place: usize, cosine: f32) {
        self.rows.push((place, cosine));
        if self.rows.len() == self.limit * 2 {
            self.cut();
        }
    }

    fn cut(&mut self) {
        if self.rows.len() <= self.limit {
            return;
        }
        self.rows.select_nth_unstable_by(self.limit - 1, |one, other| other.1.total_cmp(&one.1));
        self.rows.truncate(self.limit);
        self.worst = self.rows.iter().map(|(_, cosine)| *cosine).fold(f32::INFINITY, f32::min);
    }

    fn sorted(mut self) -> Vec<(usize, f32)> {
        self.cut();
        self.rows.sort_by(|one, other| other.1.total_cmp(&one.1).then(other.0.cmp(&one.0)));
        self.rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn unit(parts: Vec<f32>) -> Vec<f32> {
        let length = parts.iter().map(|part| part * part).sum::<f32>().sqrt();
        parts.into_iter().map(|part| part / length).collect()
    }

    fn cosine(one: &[f32], other: &[f32]) -> f32 {
        one.iter().zip(other).map(|(a, b)| a * b).sum()
    }

    fn vectors() -> impl Strategy<Value = Vec<Vec<f32>>> {
        let one = proptest::collection::vec(-1.0_f32..1.0, 40).prop_filter_map("has a direction", |parts| {
            parts.iter().any(|part| part.abs() > 0.1).then(|| unit(parts))
        });
        proptest::collection::vec(one, 2..40)
    }

    proptest! {
        #[test]
        fn the_nearest_rows_are_those_of_the_exact_scan(rows in vectors()) {
            let (query, rows) = rows.split_first().unwrap();
            let mut index = VectorIndex::default();
            for (id, row) in rows.iter().enumerate() {
                prop_assert!(index.put(id as i64, 0, &Int8Vector::of(row)));
            }
            let found = index.nearest(&Int8Vector::of(query), 5, |_| true);
            prop_assert_eq!(found.len(), rows.len().min(5));
            let mut exact: Vec<f32> = rows.iter().map(|row| cosine(query, row)).collect();
            exact.sort_by(|one, other| other.total_cmp(one));
            for ((id, seen), best) in found.iter().zip(&exact) {
                prop_assert!((seen - cosine(query, &rows[*id as usize])).abs() < 0.02);
                prop_assert!((seen - best).abs() < 0.03);
            }
        }

        #[test]
        fn a_removed_row_is_gone_and_the_others_stay(rows in vectors(), gone in proptest::collection::vec(0..40_i64, 1..20)) {
            let mut index = VectorIndex::default();
            for (id, row) in rows.iter().enumerate() {
                index.put(id as i64, 0, &Int8Vector::of(row));
            }
            gone.iter().for_each(|id| index.remove(*id));
            for (id, row) in rows.iter().enumerate() {
                let found = index.nearest(&Int8Vector::of(row), rows.len(), |_| true);
                let is_there = found.iter().any(|(other, cosine)| *other == id as i64 && *cosine > 0.98);
                prop_assert_eq!(is_there, !gone.contains(&(id as i64)));
            }
        }
    }

    #[test]
    fn a_row_is_replaced_filtered_by_its_tag_and_refused_in_other_dimensions() {
        let (up, right) = (Int8Vector::of(&[0.0, 1.0]), Int8Vector::of(&[1.0, 0.0]));
        let mut index = VectorIndex::default();
        index.put(1, 7, &up);
        index.put(1, 8, &right);
        index.put(2, 7, &up);
        assert_eq!(index.len(), 2);
        assert_eq!(index.nearest(&right, 9, |tag| tag == 8), vec![(1, 1.0)]);
        assert_eq!(index.nearest(&right, 9, |tag| tag == 7)[0].0, 2);
        assert!(!index.put(3, 7, &Int8Vector::of(&[1.0, 0.0, 0.0])));
        assert_eq!(index.nearest(&Int8Vector::of(&[1.0]), 9, |_| true), Vec::new());
    }

    #[test]
    fn a_vector_comes_back_from_its_bytes_and_nothing_has_no_direction() {
        let vector = Int8Vector::of(&[0.6, -0.8, 0.0]);
        assert_eq!(Int8Vector::from_bytes(&vector.to_bytes()), Some(vector.clone()));
        assert!(cosine(&vector.to_f32(), &[0.6, -0.8, 0.0]) > 0.999);
        assert_eq!(Int8Vector::from_bytes(&[1, 2]), None);
        assert_eq!(Int8Vector::from_f32_bytes(&vector.to_f32_bytes()), Some(vector));
        assert_eq!(Int8Vector::from_f32_bytes(&[1, 2]), None);
        let nothing = Int8Vector::of(&[0.0, 0.0]);
        assert_eq!(nothing.to_f32(), vec![0.0, 0.0]);
    }
}
