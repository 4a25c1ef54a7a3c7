//! The models: which ones answer, and which ones failed when they were last asked.

use super::Check;
use crate::assemble;
use crate::config::{Effective, Settings};
use crate::context::Context;
use crate::escape::one_line;
use crate::exit::Failure;
use crate::home::Home;
use cortex_api::ModelStatus;
use cortex_models::Models;
use cortex_store::{LastCall, last_calls};
use cortex_types::SystemClock;
use std::sync::Arc;

/// Longest reason that is shown.
const REASON_LETTERS_MAX: usize = 300;

/// Profiles whose last call failed: a problem while nobody answered after it, else a warning.
pub(super) fn failing(home: &Home) -> Vec<Check> {
    if !home.database().exists() {
        return Vec::new();
    }
    // A database that cannot be read is told by its own check.
    let calls = last_calls(&home.database()).unwrap_or_default();
    let answered_at = calls.iter().filter(|call| call.error.is_none()).map(|call| call.at).max();
    let told = |call: &LastCall| {
        let reason = one_line(call.error.as_deref()?, REASON_LETTERS_MAX);
        let (profile, model, at) = (&call.profile, &call.model, call.at.to_rfc3339());
        let line = format!(
            "{profile} {model} failed when it was last asked, at {at}: {reason}; mend its key, address or model, or wait \
             until the provider is well"
        );
        Some(match answered_at.is_some_and(|answered| answered > call.at) {
            true => Check::warning("model", format!("{line}; another one answers instead")),
            false => Check::problem("model", line),
        })
    };
    calls.iter().filter_map(told).collect()
}

/// The models that answer, by the running server or as a start would choose them.
pub(super) async fn model(
    running: Option<Vec<ModelStatus>>,
    settings: &Settings,
    effective: &Effective,
    context: &Context,
) -> Check {
    let chosen = match running {
        Some(models) => Ok(models.into_iter().map(|model| (model.kind, model.model)).collect()),
        None => would_choose(settings, effective, context).await,
    };
    let models: Vec<(String, String)> = match chosen {
        Ok(models) => models,
        Err(failure) => return Check::problem("model", failure.to_string()),
    };
    if models.iter().all(|(kind, _)| kind == "offline") {
        let message = "the offline model answers; set ANTHROPIC_API_KEY, OPENAI_API_KEY or GEMINI_API_KEY, or \
                       synapseUrl, and start again";
        return Check::warning("model", message);
    }
    let shown: Vec<String> = models.into_iter().map(|(kind, model)| format!("{kind} {model}")).collect();
    Check::ok("model", shown.join(", "))
}

async fn would_choose(
    settings: &Settings,
    effective: &Effective,
    context: &Context,
) -> Result<Vec<(String, String)>, Failure> {
    let config = assemble::models(settings, settings.model.as_ref(), effective, &context.environment)?;
    let models = Models::assemble(config, Arc::new(SystemClock::start())).await;
    let models = models.map_err(|error| assemble::models_failure(&error, effective))?;
    Ok(models.describe().into_iter().map(|model| (model.provider.to_owned(), model.model)).collect())
}
