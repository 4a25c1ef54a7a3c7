//! The guard at work: what it lets through, and what a far side cannot do to it.

use crate::egress_parts::{StubNetwork, bad_server, guard, guard_within, percent_encoded};
use cortex_tools::{Egress, EgressConfig, EgressError, FetchRequest, FetchResponse, HostPolicy, OverLimit};
use cortex_types::limits::FETCHED_BYTES_MAX;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

async fn get(egress: &Egress, url: &str) -> Result<FetchResponse, EgressError> {
    egress.fetch(FetchRequest::get(url), &HostPolicy::AnyPublic).await
}

async fn opened() -> (Egress, SocketAddr) {
    let server = bad_server().await;
    (guard(&Arc::default(), &[server]), server)
}

#[tokio::test]
async fn an_opened_host_and_port_is_reached_and_no_other() {
    let network: Arc<StubNetwork> = Arc::new(StubNetwork::default().answer("localhost", &[&["127.0.0.1"]]));
    let (server, other) = (bad_server().await, bad_server().await);
    let egress = guard(&network, &[server]);
    let response = get(&egress, &format!("http://{server}/echo?a=b#c")).await.unwrap();
    let request = String::from_utf8(response.body.clone()).unwrap();
    assert_eq!((response.status, response.url.as_str()), (200, format!("http://{server}/echo?a=b").as_str()));
    assert!(request.starts_with(&format!("GET /echo?a=b HTTP/1.1\r\nhost: {server}\r\n")), "{request}");
    assert!(request.contains("accept-encoding: identity") && !request.contains("cookie"), "{request}");
    assert_eq!(response.header("content-type"), Some("text/plain"));
    for url in [format!("http://{other}/echo"), format!("http://localhost:{}/echo", server.port())] {
        assert!(matches!(get(&egress, &url).await, Err(EgressError::NotPublic { .. })), "{url}");
    }
    assert_eq!(network.dialled(), [server]);
}

#[tokio::test]
async fn a_policy_narrows_and_a_request_goes_out_as_asked() {
    let (egress, server) = opened().await;
    let request = FetchRequest {
        method: "POST".to_owned(),
        headers: vec![("X-Key".to_owned(), "k".to_owned()), ("Host".to_owned(), "evil.test".to_owned())],
        body: b"{}".to_vec(),
        ..FetchRequest::get(&format!("http://{server}/echo"))
    };
    let elsewhere = HostPolicy::only(&["*.example.org"]).unwrap();
    let refused = egress.fetch(request.clone(), &elsewhere).await;
    assert_eq!(refused, Err(EgressError::HostNotAllowed("127.0.0.1".to_owned())));
    let here = HostPolicy::only(&["127.0.0.1"]).unwrap();
    let sent = String::from_utf8(egress.fetch(request, &here).await.unwrap().body).unwrap();
    assert!(sent.starts_with("POST /echo HTTP/1.1\r\n"), "{sent}");
    assert!(sent.contains("x-key: k\r\n") && sent.contains("content-length: 2\r\n"), "{sent}");
    assert!(!sent.contains("evil"), "{sent}");
    for (method, body) in [("CONNECT", ""), ("TRACE", ""), ("GET /x HTTP/1.1\r\n", ""), ("GET", "body")] {
        let request = FetchRequest {
            method: method.to_owned(),
            body: body.as_bytes().to_vec(),
            ..FetchRequest::get(&format!("http://{server}/echo"))
        };
        let refused = egress.fetch(request, &here).await;
        assert!(matches!(refused, Err(EgressError::BadRequest(_))), "{method}: {refused:?}");
    }
}

#[tokio::test]
async fn an_answer_of_the_dns_that_flips_to_loopback_is_blocked() {
    let network = StubNetwork::default().answer("flip.test", &[&["1.1.1.1"], &["127.0.0.1"]]);
    let network = Arc::new(network);
    let server = bad_server().await;
    let egress = guard(&network, &[server]);
    let flip = format!("http://flip.test:{}/", server.port());
    // The checked address is the one that is dialled; there is no second look-up in between.
    assert_eq!(get(&egress, &flip).await, Err(EgressError::Unreachable("flip.test".to_owned())));
    let dialled = SocketAddr::new("1.1.1.1".parse().unwrap(), server.port());
    assert_eq!(network.dialled(), [dialled]);
    assert!(matches!(get(&egress, &flip).await, Err(EgressError::NotPublic { .. })));
    let hop = format!("http://{server}/redirect?{}", percent_encoded(&flip));
    assert!(matches!(get(&egress, &hop).await, Err(EgressError::NotPublic { .. })));
    assert_eq!(network.dialled(), [dialled, server]);
}

#[tokio::test]
async fn a_connection_that_ends_elsewhere_is_not_used() {
    let server = bad_server().await;
    let network = StubNetwork::diverted_to(server).answer("public.test", &[&["1.1.1.1"]]);
    let egress = guard(&Arc::new(network), &[]);
    let result = get(&egress, "http://public.test/echo").await;
    assert_eq!(result, Err(EgressError::Unreachable("public.test".to_owned())));
}

#[tokio::test]
async fn redirects_are_followed_up_to_a_bound() {
    let (egress, server) = opened().await;
    let hop = format!("http://{server}/redirect?{}", percent_encoded("/echo?x"));
    assert_eq!(get(&egress, &hop).await.unwrap().url, format!("http://{server}/echo?x"));
    assert_eq!(get(&egress, &format!("http://{server}/loop")).await, Err(EgressError::Redirects));
}

#[tokio::test]
async fn keys_do_not_follow_a_redirect_to_another_port() {
    let (server, other) = (bad_server().await, bad_server().await);
    let egress = guard(&Arc::default(), &[server, other]);
    let to = percent_encoded(&format!("http://{other}/echo"));
    let request = FetchRequest {
        headers: vec![
            ("Authorization".to_owned(), "Bearer k".to_owned()),
            ("X-Api-Key".to_owned(), "k".to_owned()),
        ],
        ..FetchRequest::get(&format!("http://{server}/redirect?{to}"))
    };
    let response = egress.fetch(request, &HostPolicy::AnyPublic).await.unwrap();
    let seen = String::from_utf8(response.body).unwrap();
    assert!(!seen.contains("Bearer") && !seen.contains("api-key"), "{seen}");
}

#[tokio::test]
async fn a_body_stops_at_its_limit() {
    let (egress, server) = opened().await;
    let limit = 64 * 1024;
    for path in ["large", "endless"] {
        let url = format!("http://{server}/{path}");
        assert_eq!(get(&egress, &url).await, Err(EgressError::TooLarge { limit }), "{path}");
    }
    let cut = FetchRequest {
        max_bytes: Some(1_000),
        over_limit: OverLimit::Cut,
        ..FetchRequest::get(&format!("http://{server}/endless"))
    };
    let response = egress.fetch(cut, &HostPolicy::AnyPublic).await.unwrap();
    assert_eq!((response.body.len(), response.was_cut), (1_000, true));
}

#[tokio::test]
async fn a_body_waits_for_the_bytes_of_another_and_says_so_when_none_come() {
    let address = bad_server().await;
    // One body may be as large as all of them together: then there is room for one.
    let egress = Egress::new(EgressConfig {
        allow: vec![address.to_string().parse().unwrap()],
        max_bytes: FETCHED_BYTES_MAX,
        timeout: Duration::from_secs(2),
        network: Arc::new(StubNetwork::default()),
    });
    let fetch = || {
        let wanted = FetchRequest {
            max_bytes: Some(100_000),
            over_limit: OverLimit::Cut,
            ..FetchRequest::get(&format!("http://{address}/endless"))
        };
        egress.fetch(wanted, &HostPolicy::AnyPublic)
    };
    let first = fetch().await.unwrap();
    assert_eq!(first.body.len(), 100_000);
    let told = fetch().await.unwrap_err();
    assert_eq!(told, EgressError::Crowded(2_000));
    assert!(told.to_string().contains("other pages are being read"), "{told}");
    let (second, ()) = tokio::join!(fetch(), async { drop(first) });
    assert_eq!(second.unwrap().body.len(), 100_000);
}

#[tokio::test]
async fn a_packed_body_is_never_unpacked() {
    let (egress, server) = opened().await;
    let result = get(&egress, &format!("http://{server}/bomb")).await;
    assert_eq!(result, Err(EgressError::Encoded("gzip".to_owned())));
}

#[tokio::test]
async fn a_far_side_that_talks_too_much_or_nonsense_is_left() {
    let (egress, server) = opened().await;
    for path in ["headers", "head", "garbage"] {
        let result = get(&egress, &format!("http://{server}/{path}")).await;
        assert!(matches!(result, Err(EgressError::Wire(_))), "{path}: {result:?}");
    }
    let plain_as_secure = get(&egress, &format!("https://{server}/echo")).await;
    assert!(matches!(plain_as_secure, Err(EgressError::Tls { .. })), "{plain_as_secure:?}");
}

#[tokio::test]
async fn a_slow_body_ends_with_the_time_for_everything() {
    let server = bad_server().await;
    let egress = guard_within(&Arc::default(), &[server], Duration::from_millis(300));
    assert_eq!(get(&egress, &format!("http://{server}/slow")).await, Err(EgressError::TimedOut(300)));
}
