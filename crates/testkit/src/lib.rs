//! Parts for tests: third parties' fakes.

mod aimock;

pub use aimock::Aimock;
