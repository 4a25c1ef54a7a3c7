//! What memory decides: how strong a fact still is, which two say the same, what a question looks for, which hits are best.

mod conversation;
mod forget;
mod near_duplicate;
mod rank;
mod strength;
mod terms;
mod vector;

pub use conversation::rank_turns;
pub use forget::without_told;
pub use near_duplicate::is_near_duplicate;
pub use rank::{Ranking, fuse};
pub use strength::{EVICT_BELOW_HITS, EVICT_UNACCESSED, access_count, strength};
pub use terms::match_expression;
pub use vector::{Int8Vector, VectorIndex};
