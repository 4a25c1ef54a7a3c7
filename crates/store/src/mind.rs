//! What is remembered: facts, history, summaries, the index over them, and the diary of who tends them.

pub(crate) mod fact;
pub(crate) mod gardener;
pub(crate) mod history;
pub(crate) mod index;
pub(crate) mod summary;
