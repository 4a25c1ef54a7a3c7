//! Whether others can reach the address, and what must be set before they may.

use super::diagnostic::ConfigError;
use super::effective::{Effective, Source};
use std::net::{IpAddr, Ipv4Addr};

/// A key that others can try needs at least this many bytes.
const KEY_BYTES_MIN: usize = 32;

/// The address that a `host` names.
pub(crate) fn host_address(host: &str) -> Option<IpAddr> {
    match host.trim_start_matches('[').trim_end_matches(']') {
        "localhost" => Some(IpAddr::V4(Ipv4Addr::LOCALHOST)),
        literal => literal.parse().ok(),
    }
}

/// Refuses a host that other machines reach, unless the owner said so and has a real key.
pub(crate) fn check_exposure(effective: &Effective) -> Result<(), ConfigError> {
    let host = effective.text("host").unwrap_or_default();
    if host_address(host).is_some_and(|address| address.is_loopback()) {
        return Ok(());
    }
    if !effective.flag("allowRemote") {
        return Err(ConfigError::setting(
            effective.origin("host"),
            format!("host {host} can be reached from other machines, and allowRemote is false"),
            "set \"allowRemote\": true (CORTEX_ALLOW_REMOTE=true) if that is meant, or host to 127.0.0.1",
        ));
    }
    let key = effective.text("ingestApiKey").unwrap_or_default();
    if key.len() < KEY_BYTES_MIN {
        let problem = match effective.source("ingestApiKey") {
            Source::Default => "no ingestApiKey is set".to_owned(),
            Source::Flag | Source::Env | Source::File => {
                format!("ingestApiKey is shorter than {KEY_BYTES_MIN} bytes")
            }
        };
        return Err(ConfigError::setting(
            effective.origin("ingestApiKey"),
            format!("host {host} can be reached from other machines, and {problem}"),
            "set ingestApiKey (CORTEX_INGEST_API_KEY) to at least 32 random bytes, such as from `openssl rand -hex 32`",
        ));
    }
    Ok(())
}
