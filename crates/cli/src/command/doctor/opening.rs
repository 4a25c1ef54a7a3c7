//! What the settings open, to whom, and what they close.

use super::Check;
use crate::config::{Effective, Isolation, Settings, host_address};
use crate::escape::one_line;
use cortex_types::ChannelMode;

/// User ids that a warning names.
const USERS_NAMED: usize = 5;

/// Each setting that lets more in or out than the defaults do.
pub(super) fn checks(settings: &Settings, effective: &Effective) -> Vec<Check> {
    let mut open = Vec::new();
    let is_local = host_address(&settings.host).is_some_and(|address| address.is_loopback());
    if !is_local {
        let message =
            format!("other machines reach {}; set host to 127.0.0.1 if that is not meant", settings.host);
        open.push(Check::warning("allowRemote", message));
    } else if effective.flag("allowRemote") {
        let message = "allowed, though the host is this machine alone; set it to false";
        open.push(Check::warning("allowRemote", message));
    }
    if settings.engram.allow_local == Some(true) {
        let message = if is_local {
            "every program on this machine reads and changes memory without a key; set it to false if that is not meant"
        } else {
            "it opens nothing while other machines reach the host; set it to false"
        };
        open.push(Check::warning("engram.allowLocal", message));
    }
    if !settings.allowed_origins.is_empty() {
        let origins = one_line(&settings.allowed_origins.join(", "), 120);
        open.push(Check::warning("allowedOrigins", format!("pages of {origins} may call this server")));
    }
    if !settings.egress_allow.is_empty() {
        let message = format!("tools reach {} addresses that are not public", settings.egress_allow.len());
        open.push(Check::warning("egressAllow", message));
    }
    let for_connectors = is_local && settings.connector.allow_local != Some(false);
    if open.is_empty() {
        let message = if for_connectors {
            "connectors on this machine need no key (connector.allowLocal); every other door does, and only this machine reaches it"
        } else {
            "no door is open without a key, and only this machine reaches them"
        };
        open.push(Check::ok("openings", message));
    } else if for_connectors {
        let message = "connectors on this machine need no key; set it to false if that is not meant";
        open.push(Check::ok("connector.allowLocal", message));
    }
    open
}

/// Several users while all count as one owner (D17).
pub(super) fn users(seen: &[String], settings: &Settings) -> Check {
    let identities = settings.channel_settings().identities;
    let is_bare = |account: &&String| !account.contains('/') && !account.contains(':');
    let bare: Vec<String> = identities
        .values()
        .flatten()
        .filter(is_bare)
        .take(USERS_NAMED)
        .map(|user| one_line(user, 60))
        .collect();
    if !bare.is_empty() {
        let message = format!(
            "{} in identities names no source, so no connector speaks as it; write it as \"<source>/<userId>\"",
            bare.join(", ")
        );
        return Check::warning("users", message);
    }
    if seen.len() < 2 || !identities.is_empty() {
        return Check::ok("users", "who talks and whose accounts belong together is clear");
    }
    let named: Vec<String> = seen.iter().take(USERS_NAMED).map(|user| one_line(user, 60)).collect();
    let more = if seen.len() > USERS_NAMED { " and more" } else { "" };
    let message = format!(
        "{}{more} count as one owner, who sees everything; set identities to tell them apart",
        named.join(", ")
    );
    Check::warning("users", message)
}

/// What skills and MCP servers could do that other systems would not let them.
pub(super) fn children(settings: &Settings) -> Check {
    let mut gaps = cortex_tools::confinement_gaps();
    let has_skills = !settings.skill_dirs.is_empty();
    if settings.skill_isolation == Isolation::Thread && has_skills {
        gaps.push(
            "skills run inside the server; set skillIsolation to \"process\" to keep them apart".to_owned(),
        );
    }
    let unconfined: Vec<&str> = settings.mcp_servers.unconfined().collect();
    if !unconfined.is_empty() {
        gaps.push(format!("{} may read this home (unconfined)", one_line(&unconfined.join(", "), 120)));
    }
    let is_used = has_skills || !settings.mcp_servers.is_empty();
    if gaps.is_empty() || !is_used {
        Check::ok("children", "skills and MCP servers are kept from this home and its keys")
    } else {
        Check::warning("children", gaps.join("; "))
    }
}

/// Answers to webhooks that nothing here fetches.
pub(super) fn hooks(settings: &Settings) -> Option<Check> {
    let waiting: Vec<String> =
        settings.hooks.own_sources().filter(|source| !settings.webhooks.take(source)).collect();
    (!waiting.is_empty()).then(|| {
        let message = format!(
            "answers of {} wait until a connector polls them; give the hook a `to`, or post them with webhooks",
            one_line(&waiting.join(", "), 120)
        );
        Check::warning("hooks", message)
    })
}

/// Channels from which nothing leaves.
pub(super) fn channels(settings: &Settings) -> Check {
    let channels = settings.channel_settings();
    if !channels.enabled {
        return Check::warning(
            "channels",
            "enabled is false: events queue up; set it to true to have them answered",
        );
    }
    let silent = channels.channels.iter().filter(|(_, setting)| setting.mode != ChannelMode::Live);
    let mut silent: Vec<String> =
        silent.map(|(name, setting)| format!("{} is {}", one_line(name, 60), setting.mode)).collect();
    if channels.default_mode != ChannelMode::Live {
        silent.push(format!("every other is {}", channels.default_mode));
    }
    if silent.is_empty() {
        return Check::ok("channels", "all are live");
    }
    let message = format!("{}; `cortex channel mode <name> live` opens one", silent.join(", "));
    Check::warning("channels", message)
}
