//! The model named `stub`: answers everything with silence, for a server that should only collect.

use crate::error::CallError;
use crate::model::{Model, Piece, PieceStream};
use async_trait::async_trait;
use cortex_types::{ChatRequest, FinishReason};
use futures::{StreamExt, stream};

pub(crate) struct Stub;

#[async_trait]
impl Model for Stub {
    fn kind(&self) -> &'static str {
        "stub"
    }

    fn name(&self) -> String {
        "stub".to_owned()
    }

    async fn open(&self, _request: &ChatRequest) -> Result<PieceStream, CallError> {
        let pieces = vec![Piece::Text("NO_REPLY".to_owned()), Piece::Finish(FinishReason::Stop), Piece::Done];
        Ok(stream::iter([Ok(pieces)]).boxed())
    }
}
