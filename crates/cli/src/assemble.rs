//! Makes of the settings what the server is built from.

use crate::config::{Effective, Settings, Source};
use crate::environment::Environment;
use crate::exit::Failure;
use cortex_models::{FoundKey, FoundKeys, ModelsConfig, PriceTable, SynapseSetting, Timeouts, http_client};
use secrecy::{ExposeSecret, SecretString};
use std::time::Duration;

/// The typed settings. The table has checked them, so a failure here is a defect of ours.
pub(crate) fn settings(effective: &Effective) -> Result<Settings, Failure> {
    Settings::from_effective(effective)
        .map_err(|error| Failure::Coded { code: "internal_error", message: format!("settings: {error}") })
}

/// Which models may answer (D25).
pub(crate) fn models(
    settings: &Settings,
    effective: &Effective,
    environment: &Environment,
) -> Result<ModelsConfig, Failure> {
    let timeouts = Timeouts {
        idle: Duration::from_millis(settings.model_idle_timeout_ms),
        total: Duration::from_millis(settings.model_timeout_ms),
        ..Timeouts::default()
    };
    let client = http_client(&timeouts).map_err(model_failure)?;
    Ok(ModelsConfig {
        providers: settings.providers.clone(),
        synapse_url: match (settings.synapse_url.as_str(), effective.source("synapseUrl")) {
            ("off", _) => SynapseSetting::Off,
            (url, Source::Default) => SynapseSetting::Probe(url.to_owned()),
            (url, Source::Flag | Source::Env | Source::File) => SynapseSetting::Explicit(url.to_owned()),
        },
        model: settings.model.clone(),
        found: FoundKeys {
            anthropic: found_key(environment, "ANTHROPIC"),
            openai: found_key(environment, "OPENAI"),
            gemini: found_key(environment, "GEMINI"),
        },
        ollama_probe_url: Some(settings.ollama_url.clone()).filter(|url| url != "off"),
        scripted: settings.scripted_model.clone(),
        prices: prices(settings)?,
        timeouts,
        client,
    })
}

/// Everything the log must not show.
pub(crate) fn secrets(settings: &Settings, environment: &Environment) -> Vec<SecretString> {
    let profiles = settings.providers.iter().flat_map(|providers| &providers.profiles);
    let configured = profiles.flat_map(|profile| [&profile.api_key, &profile.auth_token]);
    let configured = configured.chain([&settings.ingest_api_key]).flatten().cloned();
    let passwords = [&settings.synapse_url, &settings.engram_url, &settings.ollama_url]
        .into_iter()
        .filter_map(|url| reqwest::Url::parse(url).ok()?.password().map(SecretString::from));
    crate::redact::secrets_of(environment).chain(configured).chain(passwords).collect()
}

fn found_key(environment: &Environment, name: &str) -> Option<FoundKey> {
    let api_key = SecretString::from(environment.get_filled(&format!("{name}_API_KEY"))?.trim());
    let base_url = environment.get_filled(&format!("{name}_BASE_URL")).map(str::to_owned);
    (!api_key.expose_secret().is_empty()).then_some(FoundKey { api_key, base_url })
}

fn prices(settings: &Settings) -> Result<PriceTable, Failure> {
    let Some(path) = &settings.price_file else { return Ok(PriceTable::built_in()) };
    let text = std::fs::read_to_string(path).map_err(|error| Failure::Coded {
        code: "price_file",
        message: format!("{}: {error}; fix the file, or remove priceFile", path.display()),
    })?;
    PriceTable::built_in().with_file(&text).map_err(model_failure)
}

fn model_failure(error: cortex_models::ModelsError) -> Failure {
    Failure::Coded { code: "models", message: error.to_string() }
}
