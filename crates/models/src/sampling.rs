//! How words are chosen, as fields of a request under the names that a provider has for them.

use cortex_types::Sampling;
use serde_json::{Value, json};

/// The names of a provider; `temperature` is called so by all of them.
pub(crate) struct SamplingNames {
    pub(crate) top_p: &'static str,
    pub(crate) stop: &'static str,
}

/// The fields that are set. One that is not is left out: each provider has a default of its own.
pub(crate) fn sampling_fields(sampling: &Sampling, names: &SamplingNames) -> Vec<(&'static str, Value)> {
    let Sampling { temperature, top_p, stop } = sampling;
    let temperature = temperature.map(|temperature| ("temperature", json!(temperature)));
    let top_p = top_p.map(|top_p| (names.top_p, json!(top_p)));
    let stop = (!stop.is_empty()).then(|| (names.stop, json!(stop)));
    temperature.into_iter().chain(top_p).chain(stop).collect()
}
