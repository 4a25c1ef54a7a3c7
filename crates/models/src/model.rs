//! What every model is: something that opens a stream of pieces for a question.

use crate::endpoint::Endpoint;
use crate::error::CallError;
use crate::room::Room;
use async_trait::async_trait;
use cortex_types::{ChatRequest, FinishReason, TokenUsage};
use futures::stream::BoxStream;
use std::sync::Arc;

/// A wire, the offline model, a script: they only say pieces. Timeouts, limits, cancelling and
/// putting the pieces together are done once, by their caller.
#[async_trait]
pub(crate) trait Model: Send + Sync {
    /// As in `ModelCall::provider`.
    fn kind(&self) -> &'static str;

    /// The name the provider knows it by.
    fn name(&self) -> String;

    async fn open(&self, request: &ChatRequest) -> Result<PieceStream, CallError>;

    /// How a client's own request can be passed on; `None` for what is built in.
    fn relay(&self) -> Option<RelayWire<'_>> {
        None
    }
}

/// The way on for a client's own request.
#[derive(Clone, Copy)]
pub(crate) enum RelayWire<'a> {
    /// The server takes it as it is.
    Openai(&'a Endpoint),
    /// It has to be translated.
    Other(&'a dyn NamedModel),
}

/// A provider that can be asked for any of its models.
#[async_trait]
pub(crate) trait NamedModel: Send + Sync {
    async fn open_as(
        &self,
        model: &str,
        request: &ChatRequest,
        room: Arc<dyn Room>,
    ) -> Result<PieceStream, CallError>;
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

impl Piece {
    /// The bytes of its texts.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::ToolStart { id, name, .. } => id.len() + name.len(),
            Self::ToolArguments { json, .. } => json.len(),
            Self::Usage(_) | Self::Finish(_) | Self::Done => 0,
        }
    }
}

/// A protocol that chat can be held over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wire {
    Openai,
    Anthropic,
    Google,
}
