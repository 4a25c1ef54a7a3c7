//! The egress guard: the one way out to the web for skills and built-ins. It reaches public hosts alone.

mod address;
mod budget;
mod exchange;
mod host;
mod network;
mod outgoing;
mod target;

pub use host::{HostPattern, HostPatternError, HostPolicy, HostPort, HostPortError};
pub use network::{Network, SystemNetwork};

pub(crate) use budget::Held;

use crate::tls;
use budget::Budget;
use cortex_types::limits::FETCHED_BYTES_MAX;
use exchange::{Answer, BodyLimit, exchange};
use outgoing::Outgoing;
use rustls::pki_types::ServerName;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use target::{Scheme, Target};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use url::Host;

const REDIRECTS_MAX: usize = 5;
/// How many of a host's addresses are tried.
const ADDRESSES_TRIED_MAX: usize = 4;
/// A host with more is not looked at: each one has to be checked.
const ADDRESSES_MAX: usize = 64;

/// How the guard is set up.
pub struct EgressConfig {
    /// Hosts and ports that may be reached although they are not public (`egressAllow`).
    pub allow: Vec<HostPort>,
    /// Largest body any caller gets.
    pub max_bytes: usize,
    /// Time for everything: look-up, connections, redirects, body.
    pub timeout: Duration,
    pub network: Arc<dyn Network>,
}

impl Default for EgressConfig {
    fn default() -> Self {
        Self {
            allow: Vec::new(),
            max_bytes: 8 * 1024 * 1024,
            timeout: Duration::from_secs(30),
            network: Arc::new(SystemNetwork),
        }
    }
}

/// What is asked for.
#[derive(Debug, Clone)]
pub struct FetchRequest {
    pub method: String,
    pub url: String,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    /// Less than the guard's own limit, where the caller wants less.
    pub max_bytes: Option<usize>,
    pub over_limit: OverLimit,
    /// Hosts that an answer may send the request on to; its own host, with or without `www.`, is always among them.
    pub onward: HostPolicy,
}

/// What happens to a body that is larger than its limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OverLimit {
    Fail,
    Cut,
}

/// What came back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FetchResponse {
    pub status: u16,
    /// Names are in lower case.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    /// Whether the body is only its beginning ([`OverLimit::Cut`]).
    pub was_cut: bool,
    /// Where the answer came from, after redirects.
    pub url: String,
    /// What the body holds of the bytes that all bodies share.
    pub(crate) held: Held,
}

/// Why nothing came back. The text goes to the caller; it holds no secret and no address the caller did not know.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EgressError {
    #[error("this is not a URL that can be fetched: {0}")]
    BadUrl(String),
    #[error("only http and https can be fetched, not {0:?}")]
    Scheme(String),
    #[error("a URL may not carry a user name or a password")]
    Credentials,
    #[error("the request cannot be sent: {0}")]
    BadRequest(String),
    #[error("{0} is not among the hosts that may be reached (permissions.hosts in skill.json)")]
    HostNotAllowed(String),
    #[error(
        "the page sends on to {0}, which the person did not name; nothing was sent there. \
         Ask them whether you may read it"
    )]
    SentOn(String),
    #[error(
        "{host} is {kind} and may not be reached; `egressAllow` in server.json can open its host and port"
    )]
    NotPublic { host: String, kind: &'static str },
    #[error("port {0} may not be reached; `egressAllow` in server.json can open a host and port")]
    ForeignPort(u16),
    #[error("{0} has no address")]
    NoAddress(String),
    #[error("{0} cannot be reached")]
    Unreachable(String),
    #[error("no secure connection to {host}: {reason}")]
    Tls { host: String, reason: String },
    #[error("the exchange broke: {0}")]
    Wire(String),
    #[error("more than {REDIRECTS_MAX} redirects")]
    Redirects,
    #[error("the answer is packed as {0:?} although a plain one was asked for")]
    Encoded(String),
    #[error("the answer is larger than {limit} bytes")]
    TooLarge { limit: usize },
    #[error("no whole answer within {0} ms")]
    TimedOut(u128),
    #[error(
        "not read: other pages are being read, and there was no room for this one within {0} ms; try it again"
    )]
    Crowded(u128),
}

/// The guard. Share it: what is read at once is counted for all.
pub struct Egress {
    config: EgressConfig,
    budget: Budget,
    /// Missing where TLS cannot be set up at all.
    tls: Option<TlsConnector>,
}

impl FetchRequest {
    pub fn get(url: &str) -> Self {
        Self {
            method: "GET".to_owned(),
            url: url.to_owned(),
            headers: Vec::new(),
            body: Vec::new(),
            max_bytes: None,
            over_limit: OverLimit::Fail,
            onward: HostPolicy::AnyPublic,
        }
    }
}

impl FetchResponse {
    /// The first header of this name, which is in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

impl Egress {
    pub fn new(config: EgressConfig) -> Self {
        let budget = Budget::new(FETCHED_BYTES_MAX, config.max_bytes);
        Self { config, budget, tls: tls::tls_config().ok().map(|tls| TlsConnector::from(Arc::new(tls))) }
    }

    /// Fetches from a public host that the policy permits, following redirects; each hop is checked anew.
    pub async fn fetch(
        &self,
        request: FetchRequest,
        policy: &HostPolicy,
    ) -> Result<FetchResponse, EgressError> {
        let (timeout, waits) = (self.config.timeout, AtomicBool::new(false));
        match tokio::time::timeout(timeout, self.follow(request, policy, &waits)).await {
            Ok(result) => result,
            Err(_) if waits.load(Ordering::Relaxed) => Err(EgressError::Crowded(timeout.as_millis())),
            Err(_) => Err(EgressError::TimedOut(timeout.as_millis())),
        }
    }

    async fn follow(
        &self,
        request: FetchRequest,
        policy: &HostPolicy,
        waits: &AtomicBool,
    ) -> Result<FetchResponse, EgressError> {
        let bytes = request.max_bytes.unwrap_or(usize::MAX).min(self.config.max_bytes);
        let limit = BodyLimit { bytes, over: request.over_limit, budget: &self.budget, waits };
        let onward = request.onward.clone();
        let mut outgoing = Outgoing::new(request)?;
        let first = outgoing.target.host.clone();
        for _ in 0..=REDIRECTS_MAX {
            let answer = self.send(&outgoing, policy, limit).await?;
            match answer.location() {
                Some(location) => {
                    outgoing = outgoing.redirected(answer.status, location)?;
                    let host = &outgoing.target.host;
                    if !host::is_same_site(&first, host) && !onward.permits(host) {
                        return Err(EgressError::SentOn(host.to_string()));
                    }
                }
                None => return Ok(response(answer, &outgoing.target)),
            }
        }
        Err(EgressError::Redirects)
    }

    async fn send(
        &self,
        outgoing: &Outgoing,
        policy: &HostPolicy,
        limit: BodyLimit<'_>,
    ) -> Result<Answer, EgressError> {
        let target = &outgoing.target;
        let request = outgoing.to_request()?;
        let stream = self.connect(target, &self.checked_addresses(target, policy).await?).await?;
        match target.scheme {
            Scheme::Http => exchange(stream, request, limit).await,
            Scheme::Https => {
                let failed = |reason: String| EgressError::Tls { host: target.host.to_string(), reason };
                let tls = self.tls.as_ref();
                let tls = tls.ok_or_else(|| failed("TLS cannot be set up".to_owned()))?;
                let name = server_name(&target.host).map_err(|error| failed(error.to_string()))?;
                let stream = tls.connect(name, stream).await.map_err(|error| failed(error.to_string()))?;
                exchange(stream, request, limit).await
            }
        }
    }

    /// The addresses of the target, every one of them checked. They are looked up once, and only they are connected
    /// to: a second look-up could say something else.
    async fn checked_addresses(
        &self,
        target: &Target,
        policy: &HostPolicy,
    ) -> Result<Vec<IpAddr>, EgressError> {
        let host = target.host.to_string();
        if !policy.permits(&target.host) {
            return Err(EgressError::HostNotAllowed(host));
        }
        let is_opened = self.config.allow.iter().any(|opened| opened.is(target));
        if !is_opened && target.has_foreign_port() {
            return Err(EgressError::ForeignPort(target.port));
        }
        let addresses = match &target.host {
            Host::Ipv4(address) => vec![IpAddr::V4(*address)],
            Host::Ipv6(address) => vec![IpAddr::V6(*address)],
            Host::Domain(name) if !is_opened && host::is_closed_name(name) => {
                return Err(EgressError::NotPublic { host, kind: "a name of this machine or network" });
            }
            Host::Domain(name) => {
                let found = self.config.network.look_up(name).await;
                found.map_err(|_| EgressError::NoAddress(host.clone()))?
            }
        };
        if addresses.is_empty() || addresses.len() > ADDRESSES_MAX {
            return Err(EgressError::NoAddress(host));
        }
        match addresses.iter().find_map(|address| address::refusal(*address)) {
            Some(kind) if !is_opened => Err(EgressError::NotPublic { host, kind }),
            Some(_) | None => Ok(addresses),
        }
    }

    async fn connect(&self, target: &Target, addresses: &[IpAddr]) -> Result<TcpStream, EgressError> {
        for address in addresses.iter().take(ADDRESSES_TRIED_MAX) {
            let address = SocketAddr::new(*address, target.port);
            let Ok(stream) = self.config.network.connect(address).await else { continue };
            // Whatever the network did on the way, the far end is the address that was checked.
            if stream.peer_addr().is_ok_and(|peer| is_same_address(peer, address)) {
                return Ok(stream);
            }
        }
        Err(EgressError::Unreachable(target.host.to_string()))
    }
}

fn is_same_address(one: SocketAddr, other: SocketAddr) -> bool {
    one.ip().to_canonical() == other.ip().to_canonical() && one.port() == other.port()
}

fn response(answer: Answer, target: &Target) -> FetchResponse {
    let text = |value: &http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    FetchResponse {
        status: answer.status.as_u16(),
        headers: answer.headers.iter().map(|(name, value)| (name.to_string(), text(value))).collect(),
        body: answer.body,
        was_cut: answer.was_cut,
        held: answer.share.into(),
        url: target.url.to_string(),
    }
}

fn server_name(host: &Host<String>) -> Result<ServerName<'static>, rustls::pki_types::InvalidDnsNameError> {
    match host {
        Host::Domain(name) => ServerName::try_from(name.clone()),
        Host::Ipv4(address) => Ok(ServerName::from(IpAddr::V4(*address))),
        Host::Ipv6(address) => Ok(ServerName::from(IpAddr::V6(*address))),
    }
}
