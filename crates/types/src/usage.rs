//! What a model call cost.

use crate::Millis;
use crate::limits::{COST_MICROS_MAX, LATENCY_MS_MAX, TOKENS_PER_CALL_MAX};
use serde::{Deserialize, Serialize};

/// Tokens of one call, as the provider counted them (estimated where it did not).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TokenUsage {
    pub input: u64,
    pub output: u64,
    pub cached: u64,
}

impl TokenUsage {
    /// What a provider counted, as far as it can be believed: no count breaks a sum or a row.
    #[must_use]
    pub fn clamped(self) -> Self {
        Self {
            input: self.input.min(TOKENS_PER_CALL_MAX),
            output: self.output.min(TOKENS_PER_CALL_MAX),
            cached: self.cached.min(TOKENS_PER_CALL_MAX),
        }
    }

    pub fn total(self) -> u64 {
        self.input.saturating_add(self.output)
    }
}

/// How a call ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "lowercase")]
pub enum CallOutcome {
    Answered,
    Failed { error: String },
}

/// One call to one provider, whether it answered or not; a row of `usage`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelCall {
    pub profile: String,
    /// `openai`, `anthropic`, `google`, `offline`, `scripted`, `stub`.
    pub provider: String,
    pub model: String,
    pub started_at: Millis,
    pub latency_ms: u64,
    pub usage: TokenUsage,
    /// Millionths of a US dollar, by the price table; zero when the price is unknown.
    pub cost_micros: u64,
    #[serde(flatten)]
    pub outcome: CallOutcome,
}

impl ModelCall {
    /// The same call with numbers that every row and every sum can hold.
    #[must_use]
    pub fn clamped(&self) -> Self {
        Self {
            usage: self.usage.clamped(),
            cost_micros: self.cost_micros.min(COST_MICROS_MAX),
            latency_ms: self.latency_ms.min(LATENCY_MS_MAX),
            ..self.clone()
        }
    }
}
