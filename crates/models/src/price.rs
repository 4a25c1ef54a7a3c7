//! What tokens cost: a small table in the binary, and a file of the same shape that is laid over it.

use crate::ModelsError;
use cortex_types::TokenUsage;
use cortex_types::limits::COST_MICROS_MAX;
use serde::Deserialize;
use std::collections::BTreeMap;

const BUILT_IN: &str = include_str!("prices.json");

/// US dollars per million tokens.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Price {
    pub input: f64,
    pub output: f64,
    /// Input that the provider had cached; the input price when not given.
    #[serde(default)]
    pub cached: Option<f64>,
}

/// Prices by the beginning of a model's name; the longest beginning that fits wins.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PriceTable {
    by_prefix: BTreeMap<String, Price>,
}

impl PriceTable {
    pub fn built_in() -> Self {
        Self { by_prefix: serde_json::from_str(BUILT_IN).unwrap_or_default() }
    }

    /// Lays the text of a price file over this table: its entries are added or replace.
    pub fn with_file(mut self, text: &str) -> Result<Self, ModelsError> {
        let entries: BTreeMap<String, Price> =
            serde_json::from_str(text).map_err(|error| ModelsError::Prices(error.to_string()))?;
        for (prefix, price) in entries {
            let numbers = [price.input, price.output, price.cached.unwrap_or(0.0)];
            if numbers.iter().any(|number| !number.is_finite() || *number < 0.0) {
                return Err(ModelsError::Prices(format!("{prefix:?} has a price below zero")));
            }
            self.by_prefix.insert(prefix, price);
        }
        Ok(self)
    }

    pub fn price_of(&self, model: &str) -> Option<Price> {
        // Proxies name a model `vendor/model`.
        let bare = model.rsplit('/').next().unwrap_or(model);
        self.by_prefix
            .iter()
            .filter(|(prefix, _)| bare.starts_with(prefix.as_str()) || model.starts_with(prefix.as_str()))
            .max_by_key(|(prefix, _)| prefix.len())
            .map(|(_, price)| *price)
    }

    /// Millionths of a US dollar; zero for a model without a price.
    pub fn cost_micros(&self, model: &str, usage: TokenUsage) -> u64 {
        let Some(price) = self.price_of(model) else { return 0 };
        let cached = usage.cached.min(usage.input);
        let cost = (usage.input - cached) as f64 * price.input
            + cached as f64 * price.cached.unwrap_or(price.input)
            + usage.output as f64 * price.output;
        // A float to integer cast saturates, so an absurd count cannot wrap into a small cost.
        (cost.round() as u64).min(COST_MICROS_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::PriceTable;
    use cortex_types::TokenUsage;
    use cortex_types::limits::COST_MICROS_MAX;

    const MILLION: TokenUsage = TokenUsage { input: 1_000_000, output: 1_000_000, cached: 0 };

    #[test]
    fn the_longest_beginning_wins_and_a_vendor_in_front_does_not_matter() {
        let table = PriceTable::built_in();
        assert_eq!(table.cost_micros("gpt-5-mini-2025-08-07", MILLION), 2_250_000);
        assert_eq!(table.cost_micros("gpt-5.1", MILLION), 11_250_000);
        assert_eq!(table.cost_micros("openai/gpt-5.1", MILLION), 11_250_000);
        assert_eq!(table.cost_micros("offline", MILLION), 0);
    }

    #[test]
    fn cached_input_is_cheaper_and_never_more_than_the_input() {
        let table = PriceTable::built_in();
        let usage = TokenUsage { input: 1_000_000, output: 0, cached: 400_000 };
        assert_eq!(table.cost_micros("claude-sonnet-4-5", usage), 1_800_000 + 120_000);
        let absurd = TokenUsage { input: 10, output: u64::MAX, cached: u64::MAX };
        assert_eq!(table.cost_micros("claude-sonnet-4-5", absurd), COST_MICROS_MAX);
    }

    #[test]
    fn a_file_is_laid_over_the_table() {
        let file = r#"{"gpt-5": {"input": 1, "output": 2}, "house-model": {"input": 0.5, "output": 0}}"#;
        let table = PriceTable::built_in().with_file(file).unwrap();
        assert_eq!(table.cost_micros("gpt-5.1", MILLION), 3_000_000);
        assert_eq!(table.cost_micros("house-model-7b", MILLION), 500_000);
        assert_eq!(table.cost_micros("gpt-5-mini", MILLION), 2_250_000);
    }

    #[test]
    fn a_bad_file_is_refused_with_the_reason() {
        for (file, reason) in [
            ("{", "EOF"),
            (r#"{"m": {"input": 1}}"#, "missing field `output`"),
            (r#"{"m": {"input": -1, "output": 1}}"#, "below zero"),
            (r#"{"m": {"input": 1, "output": 1, "typo": 1}}"#, "unknown field"),
        ] {
            let error = PriceTable::built_in().with_file(file).unwrap_err().to_string();
            assert!(error.starts_with("price table: ") && error.contains(reason), "{error}");
        }
    }
}
