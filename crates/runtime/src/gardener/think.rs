//! Thinking for the gardener: a model within its daily cap, or fixed rules where there is none.

use super::{Garden, GardenerError, GardenerMind, day_start};
use cortex_brain::{ExtractedFact, read_extraction};
use cortex_models::ModelError;
use cortex_types::{ChatRequest, ModelCall};

pub(super) const DAY_MS: i64 = 24 * 60 * 60 * 1_000;

/// What a question led to, and what it cost.
pub(super) struct Thought {
    pub(super) facts: Vec<ExtractedFact>,
    pub(super) calls: Vec<ModelCall>,
}

impl Garden {
    /// The offline and the silent model answer people; they extract nothing.
    pub(super) fn mind(&self) -> GardenerMind {
        let is_model = |provider: &str| !matches!(provider, "offline" | "stub");
        if self.models.describe().iter().any(|model| is_model(model.provider)) {
            GardenerMind::Model
        } else {
            GardenerMind::Rules
        }
    }

    pub(super) fn mind_in_words(&self) -> &'static str {
        match self.mind() {
            GardenerMind::Model => "by the model",
            GardenerMind::Rules => "by rules, because no model is configured",
        }
    }

    /// Asks the model for facts. By rules when there is no model, and when its answer cannot be read.
    pub(super) async fn think(
        &self,
        request: &ChatRequest,
        rules: impl Fn() -> Vec<ExtractedFact>,
    ) -> Result<Thought, GardenerError> {
        if self.mind() == GardenerMind::Rules {
            return Ok(Thought { facts: rules(), calls: Vec::new() });
        }
        self.check_cap().await?;
        let answered = self.models.answer(request, &|_| {}, &self.stop).await;
        let failure = match answered.outcome {
            Ok(reply) => {
                let facts = read_extraction(&reply.text).unwrap_or_else(|| {
                    tracing::warn!("A model's answer holds no list of facts; the rules look instead");
                    rules()
                });
                return Ok(Thought { facts, calls: answered.calls });
            }
            Err(ModelError::Transient { message, .. } | ModelError::Permanent { message }) => {
                GardenerError::Model(message)
            }
            Err(ModelError::Cancelled) => GardenerError::Stopped,
        };
        self.parts.store.gardener().pay(answered.calls).await?;
        Err(failure)
    }

    /// Both the gardener's own cap and that of the whole day hold.
    pub(super) async fn check_cap(&self) -> Result<(), GardenerError> {
        let since = day_start(self.parts.clock.now());
        if let Some(most) = self.parts.config.gardener_tokens_per_day
            && self.parts.store.gardener().tokens_since(since).await? >= most
        {
            return Err(GardenerError::CapReached(most));
        }
        if let Some(most) = self.parts.config.max_tokens_per_day
            && self.parts.store.tokens_since(since).await? >= most
        {
            return Err(GardenerError::CapReached(most));
        }
        Ok(())
    }
}
