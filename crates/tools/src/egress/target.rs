//! Where a request goes: a URL taken apart, with everything odd about it refused.

use super::EgressError;
use super::host::without_root;
use url::{Host, Url};

const URL_BYTES_MAX: usize = 8 * 1024;

/// Ports of other protocols, which a request must not be able to speak to (the list of the Fetch standard).
const FOREIGN_PORTS: &[u16] = &[
    0, 1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95, 101, 102, 103,
    104, 109, 110, 111, 113, 115, 117, 119, 123, 135, 137, 139, 143, 161, 179, 389, 427, 465, 512, 513, 514,
    515, 526, 530, 531, 532, 540, 548, 554, 556, 563, 587, 601, 636, 989, 990, 993, 995, 1719, 1720, 1723,
    2049, 3659, 4045, 4190, 5060, 5061, 6000, 6566, 6665, 6666, 6667, 6668, 6669, 6679, 6697, 10080,
];

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Scheme {
    Http,
    Https,
}

#[derive(Debug, Clone)]
pub(super) struct Target {
    pub(super) url: Url,
    pub(super) scheme: Scheme,
    pub(super) host: Host<String>,
    pub(super) port: u16,
}

impl Target {
    pub(super) fn parse(text: &str) -> Result<Self, EgressError> {
        if text.len() > URL_BYTES_MAX {
            return Err(EgressError::BadUrl("it is too long".to_owned()));
        }
        Self::new(Url::parse(text).map_err(|error| EgressError::BadUrl(error.to_string()))?)
    }

    /// The target of a redirect.
    pub(super) fn join(&self, location: &str) -> Result<Self, EgressError> {
        if location.len() > URL_BYTES_MAX {
            return Err(EgressError::BadUrl("the redirect is too long".to_owned()));
        }
        Self::new(self.url.join(location).map_err(|error| EgressError::BadUrl(error.to_string()))?)
    }

    fn new(mut url: Url) -> Result<Self, EgressError> {
        let scheme = match url.scheme() {
            "http" => Scheme::Http,
            "https" => Scheme::Https,
            other => return Err(EgressError::Scheme(other.chars().take(40).collect())),
        };
        if !url.username().is_empty() || url.password().is_some() {
            return Err(EgressError::Credentials);
        }
        let host = url.host().ok_or_else(|| EgressError::BadUrl("it has no host".to_owned()))?.to_owned();
        let port =
            url.port_or_known_default().ok_or_else(|| EgressError::BadUrl("it has no port".to_owned()))?;
        url.set_fragment(None);
        Ok(Self { scheme, host: without_root(host), port, url })
    }

    pub(super) fn has_foreign_port(&self) -> bool {
        FOREIGN_PORTS.contains(&self.port)
    }

    pub(super) fn is_same_origin(&self, other: &Self) -> bool {
        self.scheme == other.scheme && self.host == other.host && self.port == other.port
    }

    /// `host` or `host:port`, as the request names it.
    pub(super) fn authority(&self) -> String {
        match self.url.port() {
            Some(port) => format!("{}:{port}", self.host),
            None => self.host.to_string(),
        }
    }

    pub(super) fn path_and_query(&self) -> &str {
        &self.url[url::Position::BeforePath..url::Position::AfterQuery]
    }
}
