//! Makes of the settings what the server is built from.

use crate::config::{ConfigError, Effective, Isolation, Settings, Source, Undeclared, host_address};
use crate::credentials::Credentials;
use crate::environment::Environment;
use crate::exit::Failure;
use crate::home::Home;
use cortex_models::{
    Embedder, FoundKey, FoundKeys, ModelsConfig, ModelsError, PriceTable, SynapseSetting, Timeouts,
    http_client,
};
use cortex_runtime::{EngramSetting, RuntimeConfig, TokenKey};
use cortex_server::{CallerLimits, LocalClients, OwnerKey, ReadChannels, ServeConfig};
use cortex_store::StoreLimits;
use cortex_tools::{
    CalendarSource, ChildHost, Egress, EgressConfig, McpSettings, Registry, SkillIsolation, SkillOptions,
    ToolboxConfig, tls_config,
};
use cortex_types::SystemClock;
use secrecy::{ExposeSecret, SecretString};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// The typed settings. The table has checked them, so a failure here is a defect of ours.
pub(crate) fn settings(effective: &Effective) -> Result<Settings, Failure> {
    Settings::from_effective(effective)
        .map_err(|error| Failure::Coded { code: "internal_error", message: format!("settings: {error}") })
}

pub(crate) fn store_limits(settings: &Settings) -> StoreLimits {
    let database_bytes_max = match settings.max_database_mib {
        0 => u64::MAX,
        mib => mib * 1024 * 1024,
    };
    StoreLimits { queued_events_max: settings.max_queued_events, database_bytes_max }
}

/// The whole server, but not yet started.
pub(crate) fn server(
    settings: &Settings,
    effective: &Effective,
    credentials: &Credentials,
    home: &Home,
    environment: &Environment,
    read_channels: ReadChannels,
) -> Result<ServeConfig, Failure> {
    let ip = host_address(&settings.host).unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
    let ingest_key = settings.ingest_api_key.as_ref().or(credentials.ingest_api_key());
    let keys = [("ingest", ingest_key), ("owner", credentials.token())];
    Ok(ServeConfig {
        listen: SocketAddr::new(ip, settings.port),
        home: home.path().to_owned(),
        database: home.database(),
        #[cfg(not(feature = "fault-points"))]
        durability: cortex_store::Durability::Full,
        #[cfg(feature = "fault-points")]
        durability: crate::fault::durability(environment),
        store_limits: store_limits(settings),
        owner_keys: keys
            .into_iter()
            .filter_map(|(name, key)| key.map(|key| OwnerKey::new(name, key.expose_secret())))
            .collect(),
        allowed_hosts: settings.allowed_hosts.clone(),
        allowed_origins: settings.allowed_origins.clone(),
        runtime: flow(settings, effective, credentials, home)?,
        read_channels,
        models: models(settings, settings.model.as_ref(), effective, environment)?,
        extraction_models: match &settings.extraction_model {
            Some(model) => Some(models(settings, Some(model), effective, environment)?),
            None => None,
        },
        engram: engram(settings, effective),
        allow_local: LocalClients {
            engram: settings.engram.allow_local.unwrap_or(false),
            connectors: settings.connector.allow_local.unwrap_or(true),
        },
        caller_limits: CallerLimits {
            requests_per_key: settings.max_requests_per_key,
            owner_per_minute: settings.owner_requests_per_minute,
            key_per_minute: settings.key_requests_per_minute,
            keyless_per_minute: settings.open_requests_per_minute,
        },
        tools: tools(settings, effective, home, environment)?,
        hooks: settings.hooks.clone(),
        webhooks: settings.webhooks.clone(),
        connectors: Default::default(),
        more_routes: Default::default(),
    })
}

fn flow(
    settings: &Settings,
    effective: &Effective,
    credentials: &Credentials,
    home: &Home,
) -> Result<RuntimeConfig, Failure> {
    let limit = |tokens: u64| (tokens > 0).then_some(tokens);
    Ok(RuntimeConfig {
        max_parallel_topics: settings.max_parallel_topics,
        inbox_max_attempts: settings.inbox_max_attempts,
        inbox_max_restarts: settings.inbox_max_restarts,
        max_tool_rounds: settings.max_tool_rounds,
        active_window_size: settings.active_window_size,
        max_tokens_per_event: limit(settings.max_tokens_per_event),
        max_tokens_per_day: limit(settings.max_tokens_per_day),
        outbox_poll_default_batch: settings.outbox_poll_default_batch,
        outbox_lease: Duration::from_secs(u64::from(settings.outbox_lease_seconds)),
        outbox_max_attempts: settings.outbox_max_attempts,
        tool_timeout: Duration::from_millis(settings.tool_timeout_ms),
        approval_ttl: Duration::from_secs(60 * u64::from(settings.approval_ttl_minutes)),
        token_key: credentials
            .approval_secret()
            .map_or_else(TokenKey::fresh, |secret| TokenKey::new(secret.expose_secret().as_bytes())),
        approvers: settings.approvers.clone(),
        bare_words: settings.approvals.bare_words,
        undeclared_tools_ask: settings.undeclared_tools == Undeclared::Ask,
        scheduler_tick: Duration::from_secs(u64::from(settings.scheduler_tick_seconds)),
        scheduler_timezone: settings.scheduler_timezone.clone(),
        extraction_interval: settings.extraction_interval,
        turn_ttl: (settings.turn_ttl_days > 0)
            .then(|| Duration::from_secs(24 * 60 * 60 * u64::from(settings.turn_ttl_days))),
        gardener_tokens_per_day: limit(settings.gardener_tokens_per_day),
        engram: None,
        channels: settings.channel_settings(),
        memory_enabled: settings.memory_enabled(),
        context_tokens: (settings.context_tokens > 0).then_some(settings.context_tokens),
        embedder: embedder(settings, effective)?,
        workspace: home.workspace(),
        drain: Duration::from_secs(settings.drain_seconds),
    })
}

/// Who keeps the memory (D25).
pub(crate) fn engram(settings: &Settings, effective: &Effective) -> EngramSetting {
    match (settings.engram_url.as_str(), effective.source("engramUrl")) {
        ("off", _) => EngramSetting::Off,
        (url, Source::Default) => EngramSetting::Probe(url.to_owned()),
        (url, Source::Flag | Source::Env | Source::File) => EngramSetting::Explicit(url.to_owned()),
    }
}

/// Who makes the vectors.
pub(crate) fn embedder(settings: &Settings, effective: &Effective) -> Result<Embedder, Failure> {
    let Some(embedding) = &settings.embedding else { return Ok(Embedder::built_in()) };
    let client = client_with(&Timeouts::default(), effective)?;
    Embedder::remote(embedding.clone(), client, Arc::new(SystemClock::start()))
        .map_err(|error| models_failure(&error, effective))
}

/// What can be called.
pub(crate) fn tools(
    settings: &Settings,
    effective: &Effective,
    home: &Home,
    environment: &Environment,
) -> Result<ToolboxConfig, Failure> {
    let wrong = |key: &str, problem: String, help: &str| {
        Failure::from(ConfigError::setting(effective.origin(key), format!("{key}: {problem}"), help))
    };
    let zone_name = &settings.scheduler_timezone;
    let timezone = jiff::tz::TimeZone::get(zone_name).map_err(|error| {
        wrong("schedulerTimezone", error.to_string(), "give an IANA time zone such as \"UTC\"")
    })?;
    let base = base_folder(effective, "calendars", home);
    let place = |place: &str| match place.contains("://") {
        true => place.to_owned(),
        false => base.join(place).display().to_string(),
    };
    let calendars = settings.calendars.iter().map(|(name, at)| CalendarSource::new(name, &place(at)));
    let calendars = calendars.collect::<Result<Vec<_>, _>>().map_err(|error| {
        wrong("calendars", error.to_string(), "name a file or an address for each calendar")
    })?;
    Ok(ToolboxConfig {
        skills: skills(settings, effective, home)?,
        calendars,
        calendar_cache: home.data().join("calendars"),
        mcp_servers: settings.mcp_servers.clone(),
        mcp: McpSettings {
            environment: environment.pairs(),
            host: Some(child_host(home, environment)?),
            start_wait: Duration::from_secs(settings.mcp_start_seconds.into()),
            call_wait: Duration::from_secs(settings.mcp_call_wait_seconds.into()),
            ..McpSettings::default()
        },
        timezone,
        more: Registry::builder(),
    })
}

/// Where skills are and how they run.
pub(crate) fn skills(
    settings: &Settings,
    effective: &Effective,
    home: &Home,
) -> Result<SkillOptions, Failure> {
    let base = base_folder(effective, "skillDirs", home);
    let config = settings.skill_config.iter().map(|(id, value)| (id.clone(), value.to_string()));
    let egress = EgressConfig { allow: settings.egress_allow.clone(), ..EgressConfig::default() };
    Ok(SkillOptions {
        dirs: settings.skill_dirs.iter().map(|dir| base.join(dir)).collect(),
        data_dir: home.data().join("skills"),
        config_json: config.collect(),
        heap_mib: settings.skill_heap_mib,
        isolation: match settings.skill_isolation {
            Isolation::Thread => SkillIsolation::Thread,
            Isolation::Process => {
                SkillIsolation::Process { program: own_program()?, args: vec![SKILL_HOST.to_owned()] }
            }
        },
        egress: Arc::new(Egress::new(egress)),
    })
}

/// What a relative path of this key starts from: a variable is written in a shell, the file lies in the home.
fn base_folder(effective: &Effective, key: &str, home: &Home) -> PathBuf {
    match effective.source(key) {
        Source::Env | Source::Flag => std::env::current_dir().unwrap_or_else(|_| home.path().to_owned()),
        Source::File | Source::Default => home.path().to_owned(),
    }
}

/// What stands between the server and the programs of `mcpServers`, and the folders that it closes to them: this
/// home with its keys and conversations, and the keys that other programs keep.
fn child_host(home: &Home, environment: &Environment) -> Result<ChildHost, Failure> {
    let of_person = |folder: &str| environment.get("HOME").map(|person| Path::new(person).join(folder));
    let closed = [Some(home.path().to_owned()), of_person(".ssh"), of_person(".gnupg")];
    Ok(ChildHost {
        program: own_program()?,
        args: vec![CHILD_HOST.to_owned()],
        closed: closed.into_iter().flatten().filter_map(|path| path.canonicalize().ok()).collect(),
    })
}

/// The command of this program that minds a program of others.
pub(crate) const CHILD_HOST: &str = "child-host";

/// The command of this program that runs one skill between two pipes.
pub(crate) const SKILL_HOST: &str = "skill-host";

pub(crate) fn own_program() -> Result<PathBuf, Failure> {
    // The kernel's own link: it leads to this very program even after an update replaced the file.
    let link = Path::new("/proc/self/exe");
    if link.exists() {
        Ok(link.to_owned())
    } else {
        std::env::current_exe().map_err(|error| Failure::Plain(error.to_string()))
    }
}

/// Which models may answer (D25).
pub(crate) fn models(
    settings: &Settings,
    model: Option<&String>,
    effective: &Effective,
    environment: &Environment,
) -> Result<ModelsConfig, Failure> {
    let timeouts = Timeouts {
        idle: Duration::from_millis(settings.model_idle_timeout_ms),
        total: Duration::from_millis(settings.model_timeout_ms),
        ..Timeouts::default()
    };
    let client = client_with(&timeouts, effective)?;
    Ok(ModelsConfig {
        providers: settings.providers.clone(),
        synapse_url: match (settings.synapse_url.as_str(), effective.source("synapseUrl")) {
            ("off", _) => SynapseSetting::Off,
            (url, Source::Default) => SynapseSetting::Probe(url.to_owned()),
            (url, Source::Flag | Source::Env | Source::File) => SynapseSetting::Explicit(url.to_owned()),
        },
        model: model.cloned(),
        found: FoundKeys {
            anthropic: found_key(environment, "ANTHROPIC"),
            openai: found_key(environment, "OPENAI"),
            gemini: found_key(environment, "GEMINI"),
        },
        ollama_probe_url: Some(settings.ollama_url.clone()).filter(|url| url != "off"),
        ollama_is_named: effective.source("ollamaUrl") != Source::Default,
        scripted: settings.scripted_model.clone(),
        prices: prices(settings, effective)?,
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
    let mcp = settings.mcp_servers.secrets().flat_map(|value| {
        // `Bearer abc` hides the whole value and the token alone.
        let (text, last) = (value.expose_secret(), value.expose_secret().rsplit(' ').next());
        [Some(text), last].into_iter().flatten().map(SecretString::from)
    });
    // The address without its scheme: webcal is fetched as https.
    let calendars = settings.calendars.values().filter_map(|place| place.split_once("://"));
    let calendars = calendars.map(|(_, address)| SecretString::from(address));
    let hooks = settings.hooks.secrets().chain(settings.webhooks.secrets()).cloned();
    let known = crate::redact::secrets_of(environment).chain(configured).chain(passwords);
    known.chain(mcp).chain(calendars).chain(hooks).chain(settings.connectors.secrets().cloned()).collect()
}

fn found_key(environment: &Environment, name: &str) -> Option<FoundKey> {
    let api_key = SecretString::from(environment.get_filled(&format!("{name}_API_KEY"))?.trim());
    let base_url = environment.get_filled(&format!("{name}_BASE_URL")).map(str::to_owned);
    (!api_key.expose_secret().is_empty()).then_some(FoundKey { api_key, base_url })
}

fn prices(settings: &Settings, effective: &Effective) -> Result<PriceTable, Failure> {
    let Some(path) = &settings.price_file else { return Ok(PriceTable::built_in()) };
    let wrong = |problem: String| {
        let problem = format!("priceFile {}: {problem}", path.display());
        ConfigError::setting(effective.origin("priceFile"), problem, "fix the file, or remove priceFile")
    };
    let text = std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
    Ok(PriceTable::built_in().with_file(&text).map_err(|error| wrong(error.to_string()))?)
}

/// Tools that cannot stand side by side are a matter of the skills.
pub(crate) fn tools_failure(problem: &str, effective: &Effective) -> Failure {
    let help = "rename the skill, or take its folder out of skillDirs";
    ConfigError::setting(effective.origin("skillDirs"), problem.to_owned(), help).into()
}

/// A memory service that cannot be meant.
pub(crate) fn engram_failure(problem: &str, effective: &Effective) -> Failure {
    let help = "give the address of an Engram service, or \"off\"";
    ConfigError::setting(effective.origin("engramUrl"), problem.to_owned(), help).into()
}

/// Models that cannot be put together are a matter of the settings.
/// What speaks to models and to a memory service; it trusts what tools trust.
pub(crate) fn client_with(timeouts: &Timeouts, effective: &Effective) -> Result<reqwest::Client, Failure> {
    let tls = tls_config().map_err(|error| ModelsError::Client(error.to_string()));
    tls.and_then(|tls| http_client(timeouts, tls)).map_err(|error| models_failure(&error, effective))
}

pub(crate) fn models_failure(error: &ModelsError, effective: &Effective) -> Failure {
    let help = "change the setting that is named; `cortex config --server --list` shows where it comes from";
    ConfigError::setting(effective.origin("providers"), error.to_string(), help).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Flags, load};
    use crate::redact::Redactor;

    #[test]
    fn what_webhooks_are_given_in_secret_never_reaches_the_log() {
        let home = tempfile::tempdir().unwrap();
        let environment = Environment::from_pairs([
            (
                "CORTEX_HOOKS",
                r#"{"ci": {"key": "first-secret-key", "hmac": {"secret": "second-secret-key"}, "text": "x"}}"#,
            ),
            (
                "CORTEX_WEBHOOKS",
                r#"{"out": {"source": "a", "url": "https://h.example/third-secret", "headers": {"X-Any": "fourth-secret"},
                    "secret": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}}"#,
            ),
        ]);
        let effective = load(home.path(), &Flags::default(), &environment).unwrap();
        let redactor = Redactor::new(secrets(&settings(&effective).unwrap(), &environment));
        let line = "first-secret-key second-secret-key h.example/third-secret fourth-secret whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
        assert_eq!(redactor.clean(line), "*** *** *** *** ***");
    }

    #[test]
    fn what_tools_are_given_in_secret_never_reaches_the_log() {
        let home = tempfile::tempdir().unwrap();
        let environment = Environment::from_pairs([
            (
                "CORTEX_MCP_SERVERS",
                r#"{"a": {"command": "x", "env": {"ROOM": "first-secret"}},
                    "b": {"url": "https://h.example/mcp", "headers": {"X-Any": "Token second-secret"}}}"#,
            ),
            (
                "CORTEX_CALENDARS",
                r#"{"work": "webcal://c.example/third-secret", "home": "home-calendar.ics"}"#,
            ),
        ]);
        let effective = load(home.path(), &Flags::default(), &environment).unwrap();
        let redactor = Redactor::new(secrets(&settings(&effective).unwrap(), &environment));
        let line = "first-secret, Token second-secret, second-secret, https://c.example/third-secret, home-calendar.ics";
        assert_eq!(redactor.clean(line), "***, ***, ***, https://***, home-calendar.ics");
    }
}
