//! What every model is: something that opens a stream of pieces for a question.

use crate::error::CallError;
use async_trait::async_trait;
use cortex_types::{ChatRequest, FinishReason, TokenUsage};
use futures::stream::BoxStream;

/// A wire, the offline model, a script: they only say pieces. Timeouts, limits, cancelling and
/// putting the pieces together are done once, by their caller.
#[async_trait]
pub(crate) trait Model: Send + Sync {
    /// As in `ModelCall::provider`.
    fn kind(&self) -> &'static str;

    /// The name the provider knows it by.
    fn name(&self) -> String;

    async fn open(&self, request: &ChatRequest) -> Result<PieceStream, CallError>;
}

/// Batches of pieces, one for every sign of life; an empty batch is a sign of life and nothing else.
pub(crate) type PieceStream = BoxStream<'static, Result<Vec<Piece>, CallError>>;

/// One thing a provider said.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Piece {
    Text(String),
    /// A tool call begins, or says more about itself; blanks are filled in later or made up.
    ToolStart {
        slot: usize,
        id: String,
        name: String,
    },
    ToolArguments {
        slot: usize,
        json: String,
    },
    /// Counts so far: the largest of each count is the truth.
    Usage(TokenUsage),
    /// The provider says why it stopped: the answer is whole.
    Finish(FinishReason),
    /// Nothing more follows.
    Done,
}

/// A protocol that chat can be held over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wire {
    Openai,
    Anthropic,
    Google,
}
