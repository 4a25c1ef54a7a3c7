//! One request on its way: its method, its headers cleaned, and what of it survives a redirect.

use super::target::Target;
use super::{EgressError, FetchRequest};
use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Method, Request, StatusCode};
use http_body_util::Full;

const REQUEST_HEADERS_MAX: usize = 64;
const REQUEST_HEADER_BYTES_MAX: usize = 16 * 1024;

/// What the connection itself says; a caller that sets one is not heard, as in browsers.
const OWN_HEADERS: &[HeaderName] = &[
    header::ACCEPT_ENCODING,
    header::CONNECTION,
    header::CONTENT_LENGTH,
    header::EXPECT,
    header::HOST,
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];
/// The same, where the name has no constant.
const OWN_HEADER_NAMES: &[&str] = &["keep-alive", "proxy-connection"];

/// All that goes along to another origin. A key can be in any header, so this names what is harmless.
const CARRIED_ACROSS: &[HeaderName] =
    &[header::ACCEPT, header::ACCEPT_LANGUAGE, header::CONTENT_TYPE, header::USER_AGENT];

#[derive(Debug, Clone)]
pub(super) struct Outgoing {
    pub(super) method: Method,
    pub(super) target: Target,
    headers: HeaderMap,
    body: Bytes,
}

impl Outgoing {
    pub(super) fn new(request: FetchRequest) -> Result<Self, EgressError> {
        let method = match request.method.to_ascii_uppercase().as_str() {
            "GET" => Method::GET,
            "HEAD" => Method::HEAD,
            "POST" => Method::POST,
            "PUT" => Method::PUT,
            "PATCH" => Method::PATCH,
            "DELETE" => Method::DELETE,
            "OPTIONS" => Method::OPTIONS,
            _ => return Err(EgressError::BadRequest("this method is not allowed".to_owned())),
        };
        if !request.body.is_empty() && matches!(method, Method::GET | Method::HEAD) {
            return Err(EgressError::BadRequest(format!("{method} has no body")));
        }
        let headers = clean_headers(&request.headers)?;
        Ok(Self { method, target: Target::parse(&request.url)?, headers, body: request.body.into() })
    }

    /// The request a redirect asks for.
    pub(super) fn redirected(self, status: StatusCode, location: &str) -> Result<Self, EgressError> {
        let target = self.target.join(location)?;
        let mut next = Self { target, ..self.clone() };
        let becomes_get = match status {
            StatusCode::SEE_OTHER => self.method != Method::HEAD,
            StatusCode::MOVED_PERMANENTLY | StatusCode::FOUND => self.method == Method::POST,
            _ => false,
        };
        if becomes_get {
            next.method = Method::GET;
            next.body = Bytes::new();
            next.headers.remove(header::CONTENT_TYPE);
        }
        if !next.target.is_same_origin(&self.target) {
            next.headers = CARRIED_ACROSS
                .iter()
                .filter_map(|name| next.headers.get(name).map(|value| (name.clone(), value.clone())))
                .collect();
        }
        Ok(next)
    }

    pub(super) fn to_request(&self) -> Result<Request<Full<Bytes>>, EgressError> {
        let mut request = Request::builder()
            .method(self.method.clone())
            .uri(self.target.path_and_query())
            .header(header::HOST, self.target.authority())
            .body(Full::new(self.body.clone()))
            .map_err(|error| EgressError::BadRequest(error.to_string()))?;
        let headers = request.headers_mut();
        headers.extend(self.headers.clone());
        // Bodies are never unpacked here, so there is no small answer that becomes a large one.
        headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        headers
            .entry(header::USER_AGENT)
            .or_insert(HeaderValue::from_static(concat!("cortex/", env!("CARGO_PKG_VERSION"))));
        headers.entry(header::ACCEPT).or_insert(HeaderValue::from_static("*/*"));
        Ok(request)
    }
}

fn clean_headers(given: &[(String, String)]) -> Result<HeaderMap, EgressError> {
    let bytes: usize = given.iter().map(|(name, value)| name.len() + value.len()).sum();
    if given.len() > REQUEST_HEADERS_MAX || bytes > REQUEST_HEADER_BYTES_MAX {
        return Err(EgressError::BadRequest("too many headers".to_owned()));
    }
    let mut headers = HeaderMap::new();
    for (name, value) in given {
        let wrong = || EgressError::BadRequest(format!("header {:?} is malformed", name.escape_debug()));
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| wrong())?;
        let value = HeaderValue::from_str(value).map_err(|_| wrong())?;
        if !OWN_HEADERS.contains(&name) && !OWN_HEADER_NAMES.contains(&name.as_str()) {
            headers.append(name, value);
        }
    }
    Ok(headers)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn post(headers: &[(&str, &str)]) -> Outgoing {
        let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        Outgoing::new(FetchRequest {
            method: "post".to_owned(),
            headers: headers.iter().map(own).collect(),
            body: b"{}".to_vec(),
            ..FetchRequest::get("https://a.test/x")
        })
        .unwrap()
    }

    fn names(outgoing: &Outgoing) -> Vec<&str> {
        let mut names: Vec<&str> = outgoing.headers.keys().map(HeaderName::as_str).collect();
        names.sort_unstable();
        names
    }

    #[test]
    fn only_harmless_headers_follow_to_another_origin() {
        let first =
            post(&[("Authorization", "Bearer k"), ("X-Api-Key", "k"), ("Cookie", "k"), ("Accept", "a/b")]);
        for (location, kept) in [
            ("/y", vec!["accept", "authorization", "cookie", "x-api-key"]),
            ("https://b.test/", vec!["accept"]),
            ("http://a.test/x", vec!["accept"]),
            ("https://a.test:8443/x", vec!["accept"]),
        ] {
            let next = first.clone().redirected(StatusCode::TEMPORARY_REDIRECT, location).unwrap();
            assert_eq!(names(&next), kept, "{location}");
        }
    }

    #[test]
    fn a_redirect_changes_the_method_as_browsers_do() {
        for (status, method, body) in [
            (StatusCode::MOVED_PERMANENTLY, Method::GET, 0),
            (StatusCode::FOUND, Method::GET, 0),
            (StatusCode::SEE_OTHER, Method::GET, 0),
            (StatusCode::TEMPORARY_REDIRECT, Method::POST, 2),
            (StatusCode::PERMANENT_REDIRECT, Method::POST, 2),
        ] {
            let next = post(&[("content-type", "a/b")]).redirected(status, "/y").unwrap();
            assert_eq!((next.method, next.body.len()), (method, body), "{status}");
        }
    }

    #[test]
    fn headers_of_the_connection_and_split_headers_do_not_get_through() {
        let outgoing = post(&[("Host", "evil.test"), ("Transfer-Encoding", "chunked"), ("X-A", "1")]);
        assert_eq!(names(&outgoing), ["x-a"]);
        assert_eq!(outgoing.to_request().unwrap().headers()["host"], "a.test");
        for (name, value) in [("x", "a\r\nHost: evil"), ("x y", "1"), ("", "1")] {
            assert!(clean_headers(&[(name.to_owned(), value.to_owned())]).is_err(), "{name:?}");
        }
    }
}
