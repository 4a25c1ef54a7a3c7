//! Calls to a platform over HTTP: to the server that was named and nowhere else, bounded in time and size.

use super::odd_json::read_platform;
use super::platform::PlatformError;
use reqwest::{Method, RequestBuilder, Url};
use secrecy::{ExposeSecret, SecretString};
use serde::de::DeserializeOwned;
use std::time::Duration;

const CALL_TIMEOUT: Duration = Duration::from_secs(30);
const DOWNLOAD_TIMEOUT: Duration = Duration::from_secs(300);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const WAIT_MIN: Duration = Duration::from_secs(1);
const WAIT_MAX: Duration = Duration::from_secs(3_600);
const ANSWER_BYTES_MAX: u64 = 32 * 1024 * 1024;

/// Refuses what cannot be a header; `otherwise` tells where a token comes from.
pub(crate) fn check_token(token: &SecretString, otherwise: &str) -> Result<(), PlatformError> {
    let text = token.expose_secret();
    if text.is_empty() || text.contains(|letter: char| letter.is_whitespace() || letter.is_control()) {
        return Err(PlatformError::Misconfigured(otherwise.to_owned()));
    }
    Ok(())
}

/// A platform's server.
#[derive(Debug, Clone)]
pub(crate) struct Http {
    client: reqwest::Client,
    base: String,
    name: &'static str,
    /// A server of the tests, or one behind a proxy on this very machine: it speaks without TLS.
    is_plain_loopback: bool,
}

/// What a server answered.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// The header `Retry-After`, in seconds.
    pub(crate) retry_after: Option<f64>,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    pub(crate) fn read<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        read_platform(&self.body)
    }

    /// The answer, or that it was not one.
    pub(crate) fn expect<T: DeserializeOwned>(&self, what: &str) -> Result<T, PlatformError> {
        self.read().map_err(|error| PlatformError::Transient(format!("{what} was answered oddly: {error}")))
    }
}

impl Http {
    /// `setting` is where the address can be changed.
    pub(crate) fn new(name: &'static str, setting: &str, api_url: &str) -> Result<Self, PlatformError> {
        let wrong = |problem: &str| PlatformError::Misconfigured(format!("{setting} {problem}"));
        let base = api_url.trim_end_matches('/').to_owned();
        let url = Url::parse(&base).map_err(|error| wrong(&error.to_string()))?;
        let is_plain = match url.scheme() {
            "https" => false,
            "http" => true,
            _ => return Err(wrong("must begin with http:// or https://")),
        };
        // No redirects: the token goes to the server that was named.
        let builder = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(CONNECT_TIMEOUT);
        // Plain HTTP is for a server nearby: it needs neither certificates nor a proxy.
        let builder = if is_plain { builder.no_proxy().tls_certs_only([]) } else { builder };
        let client = builder.build().map_err(|error| PlatformError::Transient(told(name, error)))?;
        Ok(Self { client, base, name, is_plain_loopback: is_plain && is_loopback(&url) })
    }

    /// A request to a path of the server.
    pub(crate) fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.client.request(method, format!("{}{path}", self.base)).timeout(CALL_TIMEOUT)
    }

    pub(crate) async fn send(&self, request: RequestBuilder) -> Result<Answer, PlatformError> {
        self.exchange(request, ANSWER_BYTES_MAX).await
    }

    /// A file, up to a size.
    pub(crate) async fn download(
        &self,
        request: RequestBuilder,
        bytes_max: u64,
    ) -> Result<Answer, PlatformError> {
        self.exchange(request.timeout(DOWNLOAD_TIMEOUT), bytes_max).await
    }

    /// A request to an address that the platform named, when that address is one of `hosts` or the server itself.
    pub(crate) fn request_elsewhere(
        &self,
        url: &str,
        hosts: &[&str],
    ) -> Result<RequestBuilder, PlatformError> {
        let refused =
            || PlatformError::Permanent(format!("{} named an address that is not its own", self.name));
        let url = Url::parse(url).map_err(|_| refused())?;
        let host = url.host_str().unwrap_or_default();
        let is_under = |known: &&str| {
            host == *known || host.strip_suffix(known).is_some_and(|before| before.ends_with('.'))
        };
        let is_ours = url.scheme() == "https" && hosts.iter().any(is_under);
        let is_base = Url::parse(&self.base).is_ok_and(|base| base.origin() == url.origin());
        if is_ours || is_base { Ok(self.client.request(Method::GET, url)) } else { Err(refused()) }
    }

    /// The address of a socket that the platform named: encrypted, unless the server itself is a plain one nearby.
    pub(crate) fn socket_url(&self, url: &str) -> Result<Url, PlatformError> {
        let refused = || {
            PlatformError::Transient(format!(
                "{} named a socket without encryption; it is not used",
                self.name
            ))
        };
        let url = Url::parse(url).map_err(|_| refused())?;
        let is_fine =
            url.scheme() == "wss" || (url.scheme() == "ws" && self.is_plain_loopback && is_loopback(&url));
        if is_fine { Ok(url) } else { Err(refused()) }
    }

    async fn exchange(&self, request: RequestBuilder, bytes_max: u64) -> Result<Answer, PlatformError> {
        let broken = |error| PlatformError::Transient(told(self.name, error));
        let mut response = request.send().await.map_err(broken)?;
        let status = response.status().as_u16();
        let header = response.headers().get("retry-after");
        let retry_after = header.and_then(|value| value.to_str().ok()).and_then(|value| value.parse().ok());
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(broken)? {
            if (body.len() + chunk.len()) as u64 > bytes_max {
                return Err(PlatformError::TooBig);
            }
            body.extend_from_slice(&chunk);
        }
        Ok(Answer { status, retry_after, body })
    }
}

fn is_loopback(url: &Url) -> bool {
    match url.host_str() {
        Some("localhost" | "[::1]") => true,
        Some(host) => host.parse::<std::net::Ipv4Addr>().is_ok_and(|address| address.is_loopback()),
        None => false,
    }
}

/// Why a call failed, without the address: it may hold what nobody else should read.
fn told(name: &str, error: reqwest::Error) -> String {
    let what = if error.is_timeout() {
        "did not answer in time"
    } else if error.is_connect() {
        "cannot be reached"
    } else {
        "broke off the call"
    };
    format!("{name} {what}: {}", error.without_url())
}

/// Whole seconds to wait: at least one, and at most an hour.
pub(crate) fn seconds_up(seconds: f64) -> u32 {
    let wait = Duration::try_from_secs_f64(seconds).unwrap_or(WAIT_MAX).clamp(WAIT_MIN, WAIT_MAX);
    let whole = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
    u32::try_from(whole).unwrap_or(u32::MAX)
}

/// A segment of a path or a value of a query: ids hold letters that mean something in an address.
pub(crate) fn encoded(segment: &str) -> String {
    let mut text = String::new();
    for byte in segment.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                text.push(char::from(byte))
            }
            other => text.push_str(&format!("%{other:02X}")),
        }
    }
    // A segment of dots alone would climb.
    if text.chars().all(|letter| letter == '.') { text.replace('.', "%2E") } else { text }
}

pub(crate) fn query_of(pairs: &[(&str, &str)]) -> String {
    let pair = |(name, value): &(&str, &str)| format!("{name}={}", encoded(value));
    pairs.iter().map(pair).collect::<Vec<_>>().join("&")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Once;

    fn install_tls() {
        static INSTALL: Once = Once::new();
        INSTALL.call_once(|| rustls::crypto::ring::default_provider().install_default().unwrap_or_default());
    }

    fn http(base: &str) -> Http {
        install_tls();
        Http::new("Slack", "connectors.slack.apiUrl", base).unwrap()
    }

    #[test]
    fn a_socket_without_encryption_is_used_only_between_neighbours() {
        let far = http("http://10.0.0.5/api");
        let near = http("http://127.0.0.1:9/api");
        assert!(near.socket_url("wss://x.example/?t=1").is_ok());
        assert!(near.socket_url("ws://127.0.0.1:9/socket").is_ok());
        for (http, url) in
            [(&near, "ws://x.example/"), (&far, "ws://127.0.0.1:9/"), (&near, "http://x"), (&near, "")]
        {
            assert!(http.socket_url(url).is_err(), "{url}");
        }
    }

    #[test]
    fn a_token_goes_to_no_address_but_the_platform_s_own() {
        let base = http("http://127.0.0.1:9/api");
        for url in ["https://slack.com/f", "https://files.slack.com/f", "http://127.0.0.1:9/f"] {
            assert!(base.request_elsewhere(url, &["slack.com"]).is_ok(), "{url}");
        }
        for url in [
            "http://files.slack.com/f",
            "https://evilslack.com/f",
            "https://slack.com.evil.example/f",
            "http://127.0.0.1:10/f",
            "file:///etc/passwd",
            "",
        ] {
            assert!(base.request_elsewhere(url, &["slack.com"]).is_err(), "{url}");
        }
    }

    #[test]
    fn a_wait_is_whole_seconds_and_bounded() {
        assert_eq!([0.0, 0.2, 1.0, 1.2, 1e9, f64::NAN].map(seconds_up), [1, 1, 1, 2, 3_600, 3_600]);
    }

    #[test]
    fn an_address_that_is_none_is_told_with_its_setting() {
        for url in ["", "slack.com", "ftp://slack.com"] {
            let told = Http::new("Slack", "connectors.slack.apiUrl", url).unwrap_err().to_string();
            assert!(told.starts_with("connectors.slack.apiUrl "), "{told}");
        }
    }

    #[test]
    fn ids_become_one_segment_of_a_path() {
        assert_eq!(encoded("!a/b:x.example"), "%21a%2Fb%3Ax.example");
        assert_eq!(encoded(".."), "%2E%2E");
        assert_eq!(encoded("$ü"), "%24%C3%BC");
    }
}
