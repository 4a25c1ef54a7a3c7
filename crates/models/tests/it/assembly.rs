//! Which providers there are, and in which order (D25).

use crate::far_side::{Act, FarSide, openai, response};
use crate::setup::{ask, config, models, profiles, text};
use cortex_models::{FoundKey, FoundKeys, Models, ModelsConfig, ProviderSettings, SynapseSetting};
use cortex_types::ManualClock;
use serde_json::json;
use std::sync::Arc;

fn found(base_url: Option<&str>) -> Option<FoundKey> {
    Some(FoundKey { api_key: "sk-found-0123456789".into(), base_url: base_url.map(str::to_owned) })
}

fn json_answer(body: &str) -> String {
    response("200 OK", "application/json", "", body)
}

async fn synapse(status: &str) -> FarSide {
    let body = format!(r#"{{"status":"{status}","version":"1","uptime":5,"providers":[]}}"#);
    FarSide::saying(json_answer(&body)).await
}

async fn ollama() -> FarSide {
    let body =
        r#"{"models":[{"name":"nomic-embed-text:latest"},{"name":"llama3.2:latest"},{"name":"qwen3:8b"}]}"#;
    FarSide::saying(json_answer(body)).await
}

fn order(models: &Models) -> Vec<String> {
    models.describe().iter().map(|info| format!("{} {} {}", info.name, info.provider, info.model)).collect()
}

async fn refusal(config: ModelsConfig) -> String {
    match Models::assemble(config, Arc::new(ManualClock::default())).await {
        Ok(models) => panic!("{:?}", models.describe()),
        Err(error) => error.to_string(),
    }
}

#[tokio::test]
async fn everything_at_once_stands_in_the_order_of_d25() {
    let ollama = ollama().await;
    let config = ModelsConfig {
        providers: profiles(json!([
            { "name": "house", "kind": "openai", "baseUrl": "http://127.0.0.1:1/v1" },
            { "name": "coder", "kind": "cli" },
            { "name": "best", "kind": "anthropic", "apiKey": "k", "models": { "pro": "claude-x", "lite": "claude-y" } },
        ])),
        synapse_url: SynapseSetting::Explicit("http://127.0.0.1:1".to_owned()),
        model: Some("gpt-4o".to_owned()),
        found: FoundKeys { anthropic: found(None), openai: found(None), gemini: found(None) },
        ollama_probe_url: Some(ollama.url.clone()),
        ..config()
    };
    let models = models(config).await;
    assert_eq!(
        order(&models),
        [
            "house openai gpt-4o",
            "best anthropic claude-x",
            "synapse openai gpt-4o",
            "anthropic anthropic claude-opus-4-5",
            "openai openai gpt-4o",
            "gemini google gemini-2.5-pro",
            "ollama openai llama3.2:latest",
        ]
    );
    assert_eq!(models.notes(), ["profile \"coder\" is of kind cli: it runs agents and does not chat"]);
}

#[tokio::test]
async fn a_synapse_at_the_default_address_is_used_only_when_one_answers() {
    for (status, expected) in [("healthy", "synapse"), ("degraded", "synapse"), ("ok", "offline")] {
        let far_side = synapse(status).await;
        let models =
            models(ModelsConfig { synapse_url: SynapseSetting::Probe(far_side.url.clone()), ..config() })
                .await;
        assert_eq!(models.describe()[0].name, expected, "{status}");
    }
    let somebody_else = FarSide::saying(json_answer(r#"{"status":"healthy"}"#)).await;
    for url in [somebody_else.url.as_str(), "http://127.0.0.1:1", "http://192.0.2.1:7750", "nonsense"] {
        let models =
            models(ModelsConfig { synapse_url: SynapseSetting::Probe(url.to_owned()), ..config() }).await;
        assert_eq!(order(&models), ["offline offline offline"], "{url}");
    }
}

#[tokio::test]
async fn an_ollama_that_has_the_configured_model_is_asked_for_it() {
    let ollama = ollama().await;
    let config = ModelsConfig {
        model: Some("qwen3:8b".to_owned()),
        ollama_probe_url: Some(ollama.url.clone()),
        ..config()
    };
    assert_eq!(order(&models(config).await), ["ollama openai qwen3:8b"]);
}

#[tokio::test]
async fn probes_that_hang_come_to_an_end() {
    let silent = FarSide::answering(vec![vec![Act::Hang]]).await;
    let config = ModelsConfig {
        synapse_url: SynapseSetting::Probe(silent.url.clone()),
        ollama_probe_url: Some(silent.url.clone()),
        ..config()
    };
    // The client itself would wait for ever: that this returns at all is the probe's doing.
    assert_eq!(order(&models(config).await), ["offline offline offline"]);
    assert_eq!(silent.calls(), 2);
}

#[tokio::test]
async fn the_model_named_stub_is_alone_and_silent() {
    let config = ModelsConfig {
        model: Some("stub".to_owned()),
        found: FoundKeys { openai: found(None), ..FoundKeys::default() },
        ..config()
    };
    let models = models(config).await;
    assert_eq!(order(&models), ["stub stub stub"]);
    assert_eq!(text(&ask(&models, "hello").await), "NO_REPLY");
}

#[tokio::test]
async fn a_found_key_is_used_where_its_base_address_says() {
    let far_side = FarSide::saying(openai("found")).await;
    let config = ModelsConfig {
        model: Some("m".to_owned()),
        found: FoundKeys { openai: found(Some(&far_side.url)), ..FoundKeys::default() },
        ..config()
    };
    assert_eq!(text(&ask(&models(config).await, "hi").await), "found");
    assert_eq!(far_side.received()[0].header("authorization"), Some("Bearer sk-found-0123456789"));
}

#[tokio::test]
async fn an_empty_key_counts_as_none() {
    let empty = Some(FoundKey { api_key: "".into(), base_url: None });
    let config = ModelsConfig { found: FoundKeys { openai: empty, ..FoundKeys::default() }, ..config() };
    assert_eq!(order(&models(config).await), ["offline offline offline"]);
}

#[tokio::test]
async fn a_found_key_is_never_carried_to_the_address_of_a_profile() {
    let far_side = FarSide::saying(openai("ok")).await;
    let house =
        json!([{ "name": "house", "kind": "openai", "baseUrl": far_side.url, "models": { "pro": "m" } }]);
    let found = FoundKeys { openai: found(None), ..FoundKeys::default() };
    let config = ModelsConfig { providers: profiles(house), found, ..config() };
    assert_eq!(text(&ask(&models(config).await, "hi").await), "ok");
    assert_eq!(far_side.received()[0].header("authorization"), None);
}

#[tokio::test]
async fn what_cannot_work_stops_the_start_and_names_the_setting() {
    let with = |profile: serde_json::Value| ModelsConfig { providers: profiles(profile), ..config() };
    for (config, expected) in [
        (
            with(json!([{ "name": "a", "kind": "anthropic" }])),
            "providers.profiles \"a\": no apiKey and no authToken; set one, or baseUrl for a server that needs none",
        ),
        (
            with(json!([{ "name": "a", "kind": "openai", "apiKey": "k" }, { "name": "a", "kind": "cli" }])),
            "providers.profiles: two profiles are named \"a\"; give each its own name",
        ),
        (
            with(json!([{ "name": "a", "kind": "openai", "baseUrl": "localhost:80" }])),
            "providers.profiles \"a\": not a usable http(s) address: its scheme is \"localhost\"",
        ),
        (
            with(json!([{ "name": "a", "kind": "google", "apiKey": "two\nlines" }])),
            "providers.profiles \"a\": the key has characters that no HTTP header may carry",
        ),
        (
            ModelsConfig { synapse_url: SynapseSetting::Explicit(String::new()), ..config() },
            "synapseUrl: not a usable http(s) address: relative URL without a base",
        ),
    ] {
        assert_eq!(refusal(config).await, expected);
    }
}

#[test]
fn a_block_with_an_unknown_key_or_kind_is_refused() {
    for (json, expected) in [
        (json!({ "profile": [] }), "unknown field `profile`"),
        (
            json!({ "profiles": [{ "name": "a", "kind": "openai", "api_key": "k" }] }),
            "unknown field `api_key`",
        ),
        (json!({ "profiles": [{ "name": "a", "kind": "closedai" }] }), "unknown variant `closedai`"),
        (
            json!({ "profiles": [{ "name": "a", "kind": "cli", "models": { "best": "x" } }] }),
            "unknown field `best`",
        ),
    ] {
        let error = serde_json::from_value::<ProviderSettings>(json).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
    let block = json!({ "contexts": { "anything": { "goes": [1, 2] } } });
    assert_eq!(serde_json::from_value::<ProviderSettings>(block).unwrap().contexts.len(), 1);
}

#[test]
fn a_configuration_can_be_printed_without_its_secrets() {
    let config = ModelsConfig {
        providers: profiles(json!([
            { "name": "a", "kind": "openai", "apiKey": "sk-profile-1", "authToken": "tok-profile-2" },
        ])),
        found: FoundKeys { anthropic: found(None), ..FoundKeys::default() },
        ..config()
    };
    let shown = format!("{config:?}");
    assert!(
        shown.contains("REDACTED") && !shown.contains("profile-") && !shown.contains("sk-found"),
        "{shown}"
    );
}
