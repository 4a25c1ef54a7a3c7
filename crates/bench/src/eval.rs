//! Evaluations: how good the product's answers are, on data that anybody can fetch.

mod locomo;

pub use locomo::{RetrievalScore, eval_locomo};
