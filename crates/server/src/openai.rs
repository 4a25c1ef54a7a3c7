//! The door for programs that speak OpenAI's API: what is asked, how its turn is followed, and how the answer leaves.

mod answer;
mod ask;
mod body;
mod documents;
mod follow;
mod followed;
mod joined;
mod refusal;
mod relay;
mod stream;
mod unsupported;
mod written;

pub(crate) use answer::{Answer, whole_answer};
pub(crate) use ask::{Asked, SOURCE};
pub(crate) use body::OpenAiBody;
pub(crate) use followed::Followed;
pub(crate) use refusal::{ErrorKind, OpenAiRefusal};
pub(crate) use relay::{relayed, unknown_model};
pub(crate) use stream::{AnswerWire, answer_stream};
pub(crate) use written::written_then_acked;

/// The model that is the assistant itself.
pub(crate) const ASSISTANT: &str = "cortex";

/// Whether a path is of this door, whose refusals have a shape of their own.
pub(crate) fn is_at(path: &str) -> bool {
    path.starts_with("/v1/")
}
