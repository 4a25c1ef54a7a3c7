//! The one gate before every handler: host, origin, credential, rate and load.

use crate::auth::{Caller, Verdict};
use crate::client_connection::ClientConnection;
use crate::held_body::while_open;
use crate::load::Load;
use crate::rate::Spent;
use crate::refusal::Refusal;
use crate::routes::{CONNECTOR_ROUTES, HEALTH_ROUTES, OPEN_ROUTES, OpenTo, SOCKET_ROUTES, refused_at};
use crate::state::AppState;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use cortex_api::ErrorCode;
use cortex_models::is_own_client;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST, ORIGIN};
use http::{HeaderMap, HeaderName, Uri, Version};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use tokio::sync::Semaphore;

/// Pages that a link may lead to; looking at one changes nothing.
const PAGES: [&str; 1] = ["/approve/"];

/// What proxies add to a request that they pass on.
const PROXY_HEADERS: [&str; 10] = [
    "forwarded",
    "via",
    "x-real-ip",
    "x-client-ip",
    "x-cluster-client-ip",
    "true-client-ip",
    "cf-connecting-ip",
    "fly-client-ip",
    "x-amzn-trace-id",
    "cdn-loop",
];
const PROXY_HEADER_STARTS: [&str; 3] = ["x-forwarded", "x-original-forwarded", "x-envoy-"];

/// Said to a program that would need no key if the owner ran it.
const OTHER_USER: &str = "without a key only programs of the user who runs Cortex are let in, and no proxy; \
    `cortex key create` makes a key";

/// The address a connection came from.
#[derive(Clone, Copy)]
pub(crate) struct Peer(pub(crate) IpAddr);

/// Which names this server answers to.
pub(crate) struct Doors {
    hosts: Vec<String>,
    origins: Vec<String>,
    open_to: LocalClients,
    /// The table of all connections is read for one client at a time: its length is up to others.
    look_ups: Semaphore,
}

/// Which programs on this machine need no key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LocalClients {
    /// May use `/engram`.
    pub engram: bool,
    /// May open a session at `/connector` (D23).
    pub connectors: bool,
}

impl Doors {
    pub(crate) fn new(
        address: SocketAddr,
        more_hosts: &[String],
        more_origins: &[String],
        allow_local: LocalClients,
    ) -> Self {
        let mut hosts: Vec<String> = ["127.0.0.1", "localhost", "[::1]"].map(str::to_owned).into();
        if !address.ip().is_unspecified() {
            hosts.push(match address.ip() {
                IpAddr::V4(ip) => ip.to_string(),
                IpAddr::V6(ip) => format!("[{ip}]"),
            });
        }
        hosts.extend(more_hosts.iter().map(|host| host.to_ascii_lowercase()));
        let own = hosts.iter().map(|host| format!("http://{host}:{}", address.port()));
        let origins = own.chain(more_origins.iter().map(|origin| origin.to_ascii_lowercase())).collect();
        // A bind that others can reach has no clients that are surely local.
        let is_local = address.ip().is_loopback();
        let open_to = LocalClients {
            engram: allow_local.engram && is_local,
            connectors: allow_local.connectors && is_local,
        };
        Self { hosts, origins, open_to, look_ups: Semaphore::new(1) }
    }

    /// Whether the program at the other end runs as the user of this server. Programs of other users, and the proxies that
    /// run as such, need a key.
    async fn is_own_user(&self, client: SocketAddr, server: SocketAddr) -> bool {
        // Never closed.
        let _one_at_a_time = self.look_ups.acquire().await;
        let look = tokio::task::spawn_blocking(move || is_own_client(client, server));
        // Where the system does not tell, the address is all that is known.
        look.await.is_ok_and(|is_own| is_own.unwrap_or(true))
    }

    /// A page elsewhere that points its own name at this machine still names itself here.
    fn knows_host(&self, headers: &HeaderMap, uri: &Uri) -> bool {
        let mut named = headers.get_all(HOST).iter();
        let (Some(host), None) = (named.next(), named.next()) else { return false };
        let is_ours = |host: &str| self.hosts.iter().any(|ours| ours.eq_ignore_ascii_case(host));
        host.to_str().is_ok_and(|host| is_ours(without_port(host))) && uri.host().is_none_or(is_ours)
    }

    /// A page of this server has the name by which it was called, also behind another port or a proxy.
    fn knows_origin(&self, headers: &HeaderMap) -> bool {
        let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
        headers.get_all(ORIGIN).iter().all(|origin| {
            origin.to_str().is_ok_and(|origin| {
                let is_own = origin.split_once("://").is_some_and(|(scheme, name)| {
                    matches!(scheme, "http" | "https") && name.eq_ignore_ascii_case(host)
                });
                is_own || self.origins.iter().any(|ours| ours.eq_ignore_ascii_case(origin))
            })
        })
    }
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) && !name.ends_with(':') => name,
        _ => host,
    }
}

pub(crate) async fn guard(State(app): State<AppState>, mut request: Request, next: Next) -> Response {
    let caller = match check(&app, &request) {
        Ok(caller) => caller,
        Err(refusal) => return refused_at(request.uri().path(), refusal),
    };
    let path = request.uri().path();
    // Health is cheap, has no body, and is asked about when everything else is full.
    if HEALTH_ROUTES.contains(&path) {
        return next.run(request).await;
    }
    let turned_away = |refusal, spent| {
        let mut response = refused_at(path, refusal);
        tell(spent, &mut response);
        response
    };
    let (load, spent) = match admit(&app, &caller, &request) {
        Ok(admitted) => admitted,
        Err(Turned { refusal, spent }) => return turned_away(refusal, spent),
    };
    // Looked up only now: it costs more than the rest, and who asks too often is gone already.
    if caller == Caller::Anybody && is_for_local_programs(path) {
        let connection = request.extensions().get::<Arc<ClientConnection>>().cloned();
        if !is_own_user(&app, connection).await {
            return turned_away(Refusal::because(ErrorCode::Unauthorized, OTHER_USER), spent);
        }
    }
    request = request.map(|body| while_open(load.count(body), &caller, &app.keys));
    request.extensions_mut().insert(caller);
    request.extensions_mut().insert(load.clone());
    let mut response = next.run(request).await;
    tell(spent, &mut response);
    if is_stream(&response) { response.map(|body| load.with_answer(body)) } else { response }
}

async fn is_own_user(app: &AppState, connection: Option<Arc<ClientConnection>>) -> bool {
    let Some(connection) = connection else { return false };
    let (client, server) = connection.ends();
    connection.is_own_user(|| app.doors.is_own_user(client, server)).await
}

fn tell(spent: Option<Spent>, response: &mut Response) {
    if let Some(spent) = spent {
        spent.tell(response.headers_mut());
    }
}

/// Answers that last: they keep their request's place.
fn is_stream(response: &Response) -> bool {
    let kind = response.headers().get(CONTENT_TYPE);
    kind.is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"))
}

/// A caller that asked too often, or for more than there is now.
struct Turned {
    refusal: Refusal,
    spent: Option<Spent>,
}

fn admit(app: &AppState, caller: &Caller, request: &Request) -> Result<(Load, Option<Spent>), Turned> {
    let path = request.uri().path();
    // The session in the path is the credential, and is looked up by the handler; the socket then has its own share.
    if SOCKET_ROUTES.iter().any(|route| path.starts_with(route)) {
        return Ok((Load::default(), None));
    }
    let share = app.shares.of(caller, peer(request));
    let full = |spent| move |full| Turned { refusal: Refusal::from(full), spent };
    if !share.is_stranger()
        && let Some(connection) = request.extensions().get::<Arc<ClientConnection>>()
    {
        connection.prove(&share).map_err(full(None))?;
    }
    let spent = share.spend().map_err(|spent| {
        let refusal = Refusal::new(ErrorCode::TooManyRequests).retry_after(spent.wait.unwrap_or_default());
        Turned { refusal, spent: Some(spent) }
    })?;
    Ok((Load::begin(&share).map_err(full(spent))?, spent))
}

fn check(app: &AppState, request: &Request) -> Result<Caller, Refusal> {
    if !app.doors.knows_host(request.headers(), request.uri()) {
        return Err(Refusal::because(ErrorCode::HostNotAllowed, "add the name to allowedHosts to use it"));
    }
    if !app.doors.knows_origin(request.headers()) {
        let what_to_do = "add the origin to allowedOrigins to use it";
        return Err(Refusal::because(ErrorCode::OriginNotAllowed, what_to_do));
    }
    if is_foreign_page(request) {
        let detail = "a page of another site may not call this server; open the address itself";
        return Err(Refusal::because(ErrorCode::OriginNotAllowed, detail));
    }
    if is_open(app, request) { Ok(Caller::Anybody) } else { check_key(app, request) }
}

/// A request that a page of another site makes its reader's browser send without saying whose it is, such as the address of
/// a picture. A link that a person follows to a page of ours is none.
fn is_foreign_page(request: &Request) -> bool {
    let headers = request.headers();
    let said = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let is_elsewhere = matches!(said("sec-fetch-site"), "cross-site" | "same-site");
    // With an origin it is judged by that.
    let is_named = headers.contains_key(ORIGIN);
    let is_followed = request.method() == http::Method::GET
        && said("sec-fetch-mode") == "navigate"
        && said("sec-fetch-dest") == "document"
        && PAGES.iter().any(|page| request.uri().path().starts_with(page));
    is_elsewhere && !is_named && !is_followed
}

/// Whether a request needs no credential. One that brings a credential is judged by it all the same.
fn is_open(app: &AppState, request: &Request) -> bool {
    let found = OPEN_ROUTES.iter().find(|route| route.is_at(request.uri().path()));
    match found.map(|route| route.to) {
        None => false,
        Some(OpenTo::Everybody | OpenTo::SendersOfHooks) => true,
        Some(OpenTo::LocalEngramClients) => app.doors.open_to.engram && is_local_program(request),
        Some(OpenTo::LocalConnectors) => app.doors.open_to.connectors && is_local_program(request),
    }
}

/// Whether a route is open to the owner's programs on this machine, and to nobody else without a key.
fn is_for_local_programs(path: &str) -> bool {
    let found = OPEN_ROUTES.iter().find(|route| route.is_at(path));
    match found.map(|route| route.to) {
        Some(OpenTo::LocalEngramClients | OpenTo::LocalConnectors) => true,
        Some(OpenTo::Everybody | OpenTo::SendersOfHooks) | None => false,
    }
}

/// On this machine, no web page, without a credential that would have to be right, and not passed on for somebody else.
fn is_local_program(request: &Request) -> bool {
    let headers = request.headers();
    peer(request).is_loopback()
        && !headers.contains_key(ORIGIN)
        && !headers.contains_key(AUTHORIZATION)
        && !is_passed_on(request)
}

/// Whether a reverse proxy may have sent it. The proxy is on this machine and its clients are anywhere, so a request
/// counts as local only if it calls this server by a name that nobody elsewhere has for it, and if nothing says that it
/// came from further away.
fn is_passed_on(request: &Request) -> bool {
    let headers = request.headers();
    let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let names_this_machine =
        is_loopback_name(without_port(host)) && request.uri().host().is_none_or(is_loopback_name);
    let is_told = headers.keys().map(HeaderName::as_str).any(|name| {
        PROXY_HEADERS.contains(&name) || PROXY_HEADER_STARTS.iter().any(|start| name.starts_with(start))
    });
    // nginx passes on in HTTP/1.0 and by the address of this server, unless it is told otherwise.
    let is_old = matches!(request.version(), Version::HTTP_09 | Version::HTTP_10);
    !names_this_machine || is_told || is_old
}

fn is_loopback_name(name: &str) -> bool {
    let address = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    name.eq_ignore_ascii_case("localhost")
        || address.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

pub(crate) fn peer(request: &Request) -> IpAddr {
    request.extensions().get::<Peer>().map_or(IpAddr::from([0, 0, 0, 0]), |peer| peer.0)
}

fn check_key(app: &AppState, request: &Request) -> Result<Caller, Refusal> {
    match app.keys.judge(request.headers(), peer(request)) {
        Verdict::Known(Caller::Connector(key)) => {
            let path = request.uri().path();
            if CONNECTOR_ROUTES.iter().any(|route| route.is_at(path)) {
                return Ok(Caller::Connector(key));
            }
            let detail = format!("this key is for the connector of the source {} alone", key.source);
            Err(Refusal::because(ErrorCode::Forbidden, detail))
        }
        Verdict::Known(caller) => Ok(caller),
        Verdict::Missing | Verdict::Wrong => Err(Refusal::new(ErrorCode::Unauthorized)),
        Verdict::Throttled { retry_after } => {
            Err(Refusal::new(ErrorCode::TooManyRequests).retry_after(retry_after))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    fn doors() -> Doors {
        Doors::new(
            ([127, 0, 0, 1], 7751).into(),
            &["cortex.lan".to_owned()],
            &["https://ui.lan".to_owned()],
            LocalClients { engram: false, connectors: false },
        )
    }

    #[test]
    fn only_our_own_names_are_hosts() {
        let check = |host: &str, expected: bool| {
            let headers = HeaderMap::from_iter([(HOST, HeaderValue::from_str(host).unwrap())]);
            assert_eq!(doors().knows_host(&headers, &Uri::from_static("/health")), expected, "{host}");
        };
        for good in ["127.0.0.1:7751", "localhost", "LOCALHOST:1", "[::1]:7751", "[::1]", "cortex.lan:7751"] {
            check(good, true);
        }
        for bad in
            ["evil.example", "127.0.0.1.evil.example", "", "127.0.0.1:7751@evil", "localhost:x", "[::2]"]
        {
            check(bad, false);
        }
        assert!(!doors().knows_host(&HeaderMap::new(), &Uri::from_static("/health")));
    }

    #[test]
    fn a_name_that_only_begins_like_this_machine_is_not_its_own() {
        for own in ["127.0.0.1", "127.8.9.1", "LOCALHOST", "[::1]"] {
            assert!(is_loopback_name(own), "{own}");
        }
        for other in
            ["cortex.lan", "127.0.0.1.evil.example", "localhost.evil.example", "10.0.0.1", "[::2]", ""]
        {
            assert!(!is_loopback_name(other), "{other}");
        }
    }

    #[test]
    fn a_foreign_origin_is_refused_and_none_is_fine() {
        let check = |origin: &str, expected: bool| {
            let headers = HeaderMap::from_iter([(ORIGIN, HeaderValue::from_str(origin).unwrap())]);
            assert_eq!(doors().knows_origin(&headers), expected, "{origin}");
        };
        check("http://localhost:7751", true);
        check("https://ui.lan", true);
        check("http://localhost:8080", false);
        check("null", false);
        check("https://evil.example", false);
        assert!(doors().knows_origin(&HeaderMap::new()));
    }
}
