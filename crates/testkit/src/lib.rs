//! Parts for tests: third parties' fakes.

mod aimock;
mod store;

pub use aimock::Aimock;
pub use store::{TempStore, answered, memory_folder, new_event, new_reply, sent_again, topic};
