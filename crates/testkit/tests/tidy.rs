//! The house rules as tests: each rule first proves that it can fail, then that the tree keeps it.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "tests fail by panicking")]

/// Makes the folder `tests/tidy` the home of the modules below.
mod tidy {
    mod documents;
    mod graph;
    mod habits;
    mod homes;
    mod layout;
    mod leftovers;
    mod migrations;
    mod names;
    mod proof;
    mod ratchets;
    mod rust_source;
    mod tree;
}
