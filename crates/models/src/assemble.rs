//! Chooses the providers of a process and the order in which they are asked (D25).

use crate::anthropic::{self, Anthropic};
use crate::config::{FoundKey, ModelsConfig, Profile, SynapseSetting, TierModels};
use crate::endpoint::{Credential, Endpoint, parse_base};
use crate::failover::{Models, Origin, Provider};
use crate::google::{self, Google};
use crate::model::{Model, Wire};
use crate::model_name::{self, Position, Site};
use crate::offline::Offline;
use crate::openai::{self, OpenAi};
use crate::scripted::Scripted;
use crate::stub::Stub;
use crate::{ModelsError, probe};
use cortex_types::Clock;
use reqwest::header::HeaderName;
use secrecy::{ExposeSecret, SecretString};
use std::sync::Arc;

impl Models {
    /// Chooses the providers by D25. Probes run at once, on loopback only, and end within 300 ms.
    pub async fn assemble(config: ModelsConfig, clock: Arc<dyn Clock>) -> Result<Self, ModelsError> {
        let mut chosen = Chosen { config: &config, clock: &clock, providers: Vec::new(), notes: Vec::new() };
        if let Some(path) = &config.scripted {
            chosen.add("scripted", Origin::BuiltIn, Box::new(Scripted::load(path)?));
        } else if config.model.as_deref() == Some("stub") {
            chosen.add("stub", Origin::BuiltIn, Box::new(Stub));
        } else {
            chosen.add_profiles()?;
            chosen.add_explicit_synapse()?;
            chosen.add_found_keys()?;
            chosen.add_probed().await?;
            if chosen.providers.is_empty() {
                chosen.add("offline", Origin::BuiltIn, Box::new(Offline));
            }
        }
        let Chosen { providers, notes, .. } = chosen;
        Ok(Self { providers, notes, prices: config.prices, timeouts: config.timeouts, clock })
    }
}

/// The providers that have been chosen so far.
struct Chosen<'a> {
    config: &'a ModelsConfig,
    clock: &'a Arc<dyn Clock>,
    providers: Vec<Provider>,
    notes: Vec<String>,
}

/// What a provider on a wire is made of.
struct Wiring<'a> {
    name: &'a str,
    origin: Origin,
    wire: Wire,
    base_url: Option<&'a str>,
    credential: Credential,
    tiers: &'a TierModels,
    setting: &'a str,
}

impl Chosen<'_> {
    fn add(&mut self, name: &str, origin: Origin, model: Box<dyn Model>) {
        self.providers.push(Provider::new(name, origin, model, None));
    }

    fn add_at(&mut self, name: &str, origin: Origin, model: Box<dyn Model>, wire: Wire, site: Site) {
        self.providers.push(Provider::new(name, origin, model, Some((wire, site))));
    }

    fn add_profiles(&mut self) -> Result<(), ModelsError> {
        let profiles = self.config.providers.as_ref().map_or(&[][..], |providers| &providers.profiles);
        for (position, profile) in profiles.iter().enumerate() {
            if profiles[..position].iter().any(|other| other.name == profile.name) {
                return Err(ModelsError::DuplicateProfile(profile.name.clone()));
            }
            let Some(wire) = profile.kind.wire() else {
                self.notes.push(format!(
                    "profile {:?} is of kind cli: it runs agents and does not chat",
                    profile.name
                ));
                continue;
            };
            self.add_wire(&Wiring {
                name: &profile.name,
                origin: Origin::Profile,
                wire,
                base_url: profile.base_url.as_deref(),
                credential: self.credential_of(profile, wire)?,
                tiers: &profile.models,
                setting: &format!("providers.profiles {:?}", profile.name),
            })?;
        }
        Ok(())
    }

    /// A profile without a key takes the one found for its vendor, but never carries it to another address.
    fn credential_of(&self, profile: &Profile, wire: Wire) -> Result<Credential, ModelsError> {
        if let Some(token) = &profile.auth_token {
            return Ok(Credential::Bearer(token.clone()));
        }
        if let Some(key) = &profile.api_key {
            return Ok(key_credential(wire, key.clone()));
        }
        if profile.base_url.is_some() {
            return Ok(Credential::None);
        }
        let found = &self.config.found;
        let key = match wire {
            Wire::Anthropic => &found.anthropic,
            Wire::Openai => &found.openai,
            Wire::Google => &found.gemini,
        };
        match usable(key) {
            Some(FoundKey { api_key, base_url: None }) => Ok(key_credential(wire, api_key.clone())),
            Some(_) | None => Err(ModelsError::NoKey(profile.name.clone())),
        }
    }

    fn add_explicit_synapse(&mut self) -> Result<(), ModelsError> {
        match &self.config.synapse_url {
            SynapseSetting::Explicit(url) => self.add_synapse(Origin::SynapseUrl, url),
            SynapseSetting::Probe(_) | SynapseSetting::Off => Ok(()),
        }
    }

    fn add_synapse(&mut self, origin: Origin, url: &str) -> Result<(), ModelsError> {
        let endpoint = self.endpoint(url, "v1", Credential::None, "synapseUrl")?;
        let model = Box::new(OpenAi::new(endpoint, self.config.model.clone()));
        self.add_at("synapse", origin, model, Wire::Openai, Site::Other);
        Ok(())
    }

    fn add_found_keys(&mut self) -> Result<(), ModelsError> {
        let found = &self.config.found;
        for (name, wire, key, setting) in [
            ("anthropic", Wire::Anthropic, &found.anthropic, "ANTHROPIC_API_KEY, ANTHROPIC_BASE_URL"),
            ("openai", Wire::Openai, &found.openai, "OPENAI_API_KEY, OPENAI_BASE_URL"),
            ("gemini", Wire::Google, &found.gemini, "GEMINI_API_KEY, GEMINI_BASE_URL"),
        ] {
            let Some(FoundKey { api_key, base_url }) = usable(key) else { continue };
            self.add_wire(&Wiring {
                name,
                origin: Origin::FoundKey,
                wire,
                base_url: base_url.as_deref(),
                credential: key_credential(wire, api_key.clone()),
                tiers: &TierModels::default(),
                setting,
            })?;
        }
        Ok(())
    }

    async fn add_probed(&mut self) -> Result<(), ModelsError> {
        let config = self.config;
        let synapse_url = match &config.synapse_url {
            SynapseSetting::Probe(url) => Some(url),
            SynapseSetting::Explicit(_) | SynapseSetting::Off => None,
        };
        let (synapse_is_there, ollama_models) = tokio::join!(
            async {
                match synapse_url {
                    Some(url) => probe::synapse_is_at(&config.client, url).await,
                    None => false,
                }
            },
            async {
                match &config.ollama_probe_url {
                    Some(url) => probe::ollama_models(&config.client, url, config.ollama_is_named).await,
                    None => Vec::new(),
                }
            },
        );
        if let (true, Some(url)) = (synapse_is_there, synapse_url) {
            self.add_synapse(Origin::Probed, url)?;
        }
        let wanted = ollama_models.iter().find(|name| Some(*name) == config.model.as_ref());
        if let (Some(model), Some(url)) = (wanted.or(ollama_models.first()), &config.ollama_probe_url) {
            let endpoint = self.endpoint(url, "v1", Credential::None, "Ollama")?;
            let model = Box::new(OpenAi::new(endpoint, Some(model.clone())));
            self.add_at("ollama", Origin::Probed, model, Wire::Openai, Site::Other);
        }
        Ok(())
    }

    fn add_wire(&mut self, wiring: &Wiring<'_>) -> Result<(), ModelsError> {
        let (vendor_url, version) = match wiring.wire {
            Wire::Openai => (openai::BASE_URL, "v1"),
            Wire::Anthropic => (anthropic::BASE_URL, "v1"),
            Wire::Google => (google::BASE_URL, "v1beta"),
        };
        let base_url = wiring.base_url.unwrap_or(vendor_url);
        let endpoint = self.endpoint(base_url, version, wiring.credential.clone(), wiring.setting)?;
        let is_vendor = endpoint.host() == parse_base(vendor_url, wiring.setting)?.host_str();
        let site = if is_vendor { Site::Vendor } else { Site::Other };
        let position = if self.providers.is_empty() { Position::First } else { Position::Later };
        let named =
            model_name::named(wiring.wire, site, position, wiring.tiers, self.config.model.as_deref());
        let named_or_default = named.unwrap_or(model_name::default_of(wiring.wire)).to_owned();
        let wire: Box<dyn Model> = match (wiring.wire, site) {
            // Only the server knows what a compatible server has.
            (Wire::Openai, Site::Other) => Box::new(OpenAi::new(endpoint, named.map(str::to_owned))),
            (Wire::Openai, Site::Vendor) => Box::new(OpenAi::new(endpoint, Some(named_or_default))),
            (Wire::Anthropic, _) => Box::new(Anthropic::new(endpoint, named_or_default)),
            (Wire::Google, _) => Box::new(Google::new(endpoint, &named_or_default)),
        };
        self.add_at(wiring.name, wiring.origin, wire, wiring.wire, site);
        Ok(())
    }

    fn endpoint(
        &self,
        base_url: &str,
        version: &str,
        credential: Credential,
        setting: &str,
    ) -> Result<Endpoint, ModelsError> {
        Endpoint::new(
            self.config.client.clone(),
            Arc::clone(self.clock),
            base_url,
            version,
            credential,
            setting,
        )
    }
}

/// `OPENAI_API_KEY=` in front of a command is how people take a key away.
fn usable(key: &Option<FoundKey>) -> Option<&FoundKey> {
    key.as_ref().filter(|key| !key.api_key.expose_secret().is_empty())
}

/// Each vendor wants its key in another header, and none in the address.
fn key_credential(wire: Wire, key: SecretString) -> Credential {
    match wire {
        Wire::Anthropic => Credential::Header(HeaderName::from_static("x-api-key"), key),
        Wire::Google => Credential::Header(HeaderName::from_static("x-goog-api-key"), key),
        Wire::Openai => Credential::Bearer(key),
    }
}
