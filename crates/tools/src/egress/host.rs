//! Hosts by name: what the operator opens (`egressAllow`) and what a skill is narrowed to (`permissions.hosts`).

use super::target::Target;
use serde::Deserialize;
use std::fmt;
use std::str::FromStr;
use url::Host;

/// Names that mean this machine or this network, whatever an answer of the DNS says.
const CLOSED_NAMES: &[&str] =
    &["localhost", "local", "localdomain", "internal", "intranet", "lan", "home", "corp", "home.arpa"];

/// One entry of `egressAllow`: a host and a port that may be reached although they are not public.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct HostPort {
    host: Host<String>,
    port: u16,
}

/// A text that is no host and port.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a host and port; write it like \"127.0.0.1:9000\" or \"[::1]:9000\"")]
pub struct HostPortError(String);

/// Which public hosts a caller may reach. It only narrows: nothing here opens a private address.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum HostPolicy {
    #[default]
    AnyPublic,
    Only(Vec<HostPattern>),
}

/// `api.example.org` alone, or everything below `*.example.org`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HostPattern {
    Exact(Host<String>),
    Below(String),
}

/// A text that is no host pattern.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not a host; write it like \"api.example.org\" or \"*.example.org\", without scheme and port"
)]
pub struct HostPatternError(String);

impl HostPort {
    pub(super) fn is(&self, target: &Target) -> bool {
        self.host == target.host && self.port == target.port
    }
}

impl FromStr for HostPort {
    type Err = HostPortError;

    fn from_str(text: &str) -> Result<Self, HostPortError> {
        let wrong = || HostPortError(text.chars().take(100).collect());
        let (host, port) = text.rsplit_once(':').ok_or_else(wrong)?;
        let host = parse_host(host).ok_or_else(wrong)?;
        match port.parse() {
            Ok(port) if port > 0 => Ok(Self { host, port }),
            Ok(_) | Err(_) => Err(wrong()),
        }
    }
}

impl TryFrom<String> for HostPort {
    type Error = HostPortError;

    fn try_from(text: String) -> Result<Self, HostPortError> {
        text.parse()
    }
}

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

impl HostPolicy {
    /// The policy of a manifest's `permissions.hosts`. An empty list reaches nothing.
    pub fn only<S: AsRef<str>>(hosts: &[S]) -> Result<Self, HostPatternError> {
        hosts.iter().map(|host| host.as_ref().parse()).collect::<Result<_, _>>().map(Self::Only)
    }

    pub(super) fn permits(&self, host: &Host<String>) -> bool {
        match self {
            Self::AnyPublic => true,
            Self::Only(patterns) => patterns.iter().any(|pattern| pattern.matches(host)),
        }
    }
}

impl HostPattern {
    /// This host and no other one, whatever it looks like: a `*` that somebody wrote in a chat stands for nothing.
    pub fn exact(host: &str) -> Option<Self> {
        parse_host(host).map(Self::Exact)
    }

    fn matches(&self, host: &Host<String>) -> bool {
        match (self, host) {
            (Self::Exact(known), host) => known == host,
            (Self::Below(parent), Host::Domain(name)) => is_below(name, parent),
            (Self::Below(_), Host::Ipv4(_) | Host::Ipv6(_)) => false,
        }
    }
}

impl FromStr for HostPattern {
    type Err = HostPatternError;

    fn from_str(text: &str) -> Result<Self, HostPatternError> {
        let wrong = || HostPatternError(text.chars().take(100).collect());
        match text.strip_prefix("*.") {
            None => parse_host(text).map(Self::Exact).ok_or_else(wrong),
            Some(parent) => match parse_host(parent) {
                Some(Host::Domain(parent)) => Ok(Self::Below(parent)),
                Some(Host::Ipv4(_) | Host::Ipv6(_)) | None => Err(wrong()),
            },
        }
    }
}

impl fmt::Display for HostPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exact(host) => write!(f, "{host}"),
            Self::Below(parent) => write!(f, "*.{parent}"),
        }
    }
}

/// A name without the dot of the root, so that `example.org.` is `example.org`.
pub(super) fn without_root(host: Host<String>) -> Host<String> {
    match host {
        Host::Domain(name) => Host::Domain(name.strip_suffix('.').map(str::to_owned).unwrap_or(name)),
        Host::Ipv4(_) | Host::Ipv6(_) => host,
    }
}

/// Whether two hosts are one, but for `www.`.
pub(super) fn is_same_site(one: &Host<String>, other: &Host<String>) -> bool {
    let bare = |host: &Host<String>| match host {
        Host::Domain(name) => name.strip_prefix("www.").unwrap_or(name).to_owned(),
        Host::Ipv4(_) | Host::Ipv6(_) => host.to_string(),
    };
    bare(one) == bare(other)
}

/// Whether a name can only mean something near.
pub(super) fn is_closed_name(name: &str) -> bool {
    CLOSED_NAMES.iter().any(|closed| name == *closed || is_below(name, closed))
}

fn is_below(name: &str, parent: &str) -> bool {
    name.strip_suffix(parent).is_some_and(|rest| rest.len() > 1 && rest.ends_with('.'))
}

fn parse_host(text: &str) -> Option<Host<String>> {
    // The parser takes much for a name; a star, a port or a path in it is a mistake of the writer.
    let is_bracketed = text.starts_with('[');
    let is_odd = text.is_empty() || text.contains(['*', '/', '@', '?', '#', ' ']);
    if is_odd || (!is_bracketed && text.contains(':')) {
        return None;
    }
    Host::parse(text).ok().map(without_root)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_matches_its_host_and_no_lookalike() {
        let policy = HostPolicy::only(&["api.example.org", "*.Weather.test", "10.0.0.1"]).unwrap();
        let permits = |host: &str| policy.permits(&without_root(Host::parse(host).unwrap()));
        let good = ["api.example.org", "API.example.org.", "a.weather.test", "a.b.weather.test", "10.0.0.1"];
        let bad =
            ["example.org", "xapi.example.org", "api.example.org.evil.test", "weather.test", "10.0.0.2"];
        assert_eq!(good.map(permits), [true; 5], "{good:?}");
        assert_eq!(bad.map(permits), [false; 5], "{bad:?}");
        assert!(!HostPolicy::only::<&str>(&[]).unwrap().permits(&Host::Domain("example.org".to_owned())));
    }

    #[test]
    fn a_host_that_somebody_wrote_is_itself_and_no_pattern() {
        let permits = |written: &str, host: &str| {
            let policy = HostPolicy::Only(HostPattern::exact(written).into_iter().collect());
            policy.permits(&Host::parse(host).unwrap())
        };
        assert!(permits("a.test", "a.test"));
        assert!(!permits("*.test", "a.test") && !permits("*", "a.test"));
    }

    #[test]
    fn a_pattern_or_an_opening_that_is_written_wrong_is_refused() {
        for text in
            ["", "*", "*.", "https://a.test", "a.test:443", "a.test/x", "u@a.test", "a.*.test", "*.10.0.0.1"]
        {
            assert!(text.parse::<HostPattern>().is_err(), "{text}");
        }
        for text in ["", "127.0.0.1", "127.0.0.1:", "127.0.0.1:0", "127.0.0.1:70000", ":80", "::1:80", "*:80"]
        {
            assert!(text.parse::<HostPort>().is_err(), "{text}");
        }
        for text in ["127.0.0.1:9000", "[::1]:9000", "printer.lan:631"] {
            assert_eq!(text.parse::<HostPort>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn a_site_is_its_name_with_and_without_www() {
        let same =
            |one: &str, other: &str| is_same_site(&Host::parse(one).unwrap(), &Host::parse(other).unwrap());
        assert!(same("example.org", "www.example.org") && same("10.0.0.1", "10.0.0.1"));
        assert!(!same("example.org", "api.example.org") && !same("example.org", "www.evil.test"));
        assert!(!same("10.0.0.1", "10.0.0.2"));
    }

    #[test]
    fn names_of_the_own_network_are_closed() {
        let closed =
            ["localhost", "a.localhost", "metadata.google.internal", "nas.local", "router.home.arpa"];
        assert_eq!(closed.map(is_closed_name), [true; 5]);
        assert_eq!(["example.org", "notlocalhost", "internal.example.org"].map(is_closed_name), [false; 3]);
    }
}
