//! Host and Origin: a page elsewhere reaches no route, whatever name it gives this machine.

use crate::openapi::routes;
use cortex_testkit::{Answer, ServerSetup, exchange};
use serde_json::{Value, json};

fn refused(answer: &Answer) -> (u16, Value) {
    let error = answer.json()["error"].clone();
    // Below /v1 refusals have OpenAI's shape.
    (answer.status, if error.is_object() { error["code"].clone() } else { error })
}

#[tokio::test]
async fn a_foreign_host_is_421_on_every_route() {
    let server = ServerSetup::echoing().start().await;
    for (method, path) in routes() {
        for host in ["evil.example", "127.0.0.1.evil.example", "localhost.evil:80", "[::2]", "0.0.0.0", ""] {
            let request = server.request(&method, &path).without("host").header("host", host);
            let answer = request.json(&json!({})).send().await;
            assert_eq!(refused(&answer), (421, json!("host_not_allowed")), "{method} {path} at {host:?}");
        }
    }
}

#[tokio::test]
async fn our_own_names_are_answered_with_any_port() {
    let server = ServerSetup::echoing().allowing("Cortex.lan", "https://ui.lan").start().await;
    for host in [
        "127.0.0.1",
        "127.0.0.1:1",
        "localhost",
        "LocalHost:7751",
        "[::1]:7751",
        "cortex.lan",
        "cortex.LAN:80",
    ] {
        let answer = server.request("GET", "/health").without("host").header("host", host).send().await;
        assert_eq!(answer.status, 200, "{host}");
    }
}

#[tokio::test]
async fn no_host_two_hosts_or_a_foreign_address_line_are_refused() {
    let server = ServerSetup::echoing().start().await;
    let heads = [
        "GET /health HTTP/1.0\r\n\r\n".to_owned(),
        "GET /health HTTP/1.1\r\nconnection: close\r\n\r\n".to_owned(),
        "GET /health HTTP/1.1\r\nhost: localhost\r\nhost: localhost\r\nconnection: close\r\n\r\n".to_owned(),
        "GET http://evil.example/health HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n".to_owned(),
    ];
    for head in heads {
        let answer = exchange(server.address(), head.as_bytes()).await;
        assert_eq!(refused(&answer), (421, json!("host_not_allowed")), "{head:?}");
    }
}

#[tokio::test]
async fn a_foreign_origin_is_403_on_every_route_and_nobody_is_invited() {
    let server = ServerSetup::echoing().start().await;
    let other_port = format!("http://127.0.0.1:{}", server.address().port() ^ 1);
    for (method, path) in routes() {
        for origin in ["https://evil.example", "null", "http://localhost", other_port.as_str(), "file://", ""]
        {
            let answer =
                server.request(&method, &path).header("origin", origin).json(&json!({})).send().await;
            assert_eq!(
                refused(&answer),
                (403, json!("origin_not_allowed")),
                "{method} {path} from {origin:?}"
            );
            assert_eq!(answer.header("access-control-allow-origin"), None);
        }
    }
}

#[tokio::test]
async fn a_picture_of_a_foreign_page_reaches_no_route() {
    let server = ServerSetup::echoing().start().await;
    for (method, path) in routes() {
        for site in ["cross-site", "same-site"] {
            let picture = server
                .request(&method, &path)
                .header("sec-fetch-site", site)
                .header("sec-fetch-mode", "no-cors")
                .header("sec-fetch-dest", "image");
            let answer = picture.json(&json!({})).send().await;
            assert_eq!(refused(&answer), (403, json!("origin_not_allowed")), "{method} {path} from {site}");
        }
    }
    let from = |path: &str, site: &str| {
        server
            .request("GET", path)
            .without_key()
            .header("sec-fetch-site", site)
            .header("sec-fetch-mode", "navigate")
            .header("sec-fetch-dest", "document")
    };
    assert_eq!(from("/connector", "cross-site").send().await.status, 403, "a link opens no session");
    assert_eq!(
        from("/approve/apr_x", "cross-site").send().await.status,
        404,
        "a link to a question is followed"
    );
    assert_eq!(from("/health", "none").send().await.status, 200, "a person typed the address");
}

#[tokio::test]
async fn our_own_origin_a_configured_one_and_none_are_answered() {
    let server = ServerSetup::echoing().allowing("cortex.lan", "https://ui.lan").start().await;
    let port = server.address().port();
    for origin in [
        format!("http://127.0.0.1:{port}"),
        format!("http://localhost:{port}"),
        format!("http://[::1]:{port}"),
        "https://ui.lan".to_owned(),
    ] {
        let answer = server.request("GET", "/api/v2/status").header("origin", &origin).send().await;
        assert_eq!((answer.status, answer.header("access-control-allow-origin")), (200, None), "{origin}");
    }
}

#[tokio::test]
async fn a_preflight_of_a_foreign_page_is_refused() {
    let server = ServerSetup::echoing().start().await;
    let preflight = server
        .request("OPTIONS", "/ingest")
        .without_key()
        .header("origin", "https://evil.example")
        .header("access-control-request-method", "POST");
    let answer = preflight.send().await;
    assert_eq!(refused(&answer), (403, json!("origin_not_allowed")));
}

#[tokio::test]
async fn what_a_proxy_passes_on_is_no_program_of_this_machine() {
    let setup = ServerSetup::echoing().engram_for_local_clients().allowing("cortex.lan", "https://ui.lan");
    let server = setup.start().await;
    for path in ["/connector", "/engram/capabilities"] {
        let bare = || server.request("GET", path).without("authorization");
        assert_ne!(bare().send().await.status, 401, "{path}: a program of this machine needs no key");
        let named = bare().without("host").header("host", "cortex.lan").send().await;
        assert_eq!(named.status, 401, "{path} by the name that others use");
        for (name, value) in [
            ("x-forwarded-for", "203.0.113.7"),
            ("x-forwarded-proto", "https"),
            ("x-real-ip", "203.0.113.7"),
            ("forwarded", "for=203.0.113.7"),
            ("via", "1.1 proxy"),
            ("cf-connecting-ip", "203.0.113.7"),
        ] {
            assert_eq!(bare().header(name, value).send().await.status, 401, "{path} with {name}");
        }
        let old = format!("GET {path} HTTP/1.0\r\nhost: 127.0.0.1\r\n\r\n");
        assert_eq!(exchange(server.address(), old.as_bytes()).await.status, 401, "{path} as nginx sends it");
    }
}
