//! The OpenAPI document, and the promise that every route in it is guarded.

use cortex_server::{OPEN_ROUTES, OpenTo};
use cortex_testkit::ServerSetup;
use serde_json::{Value, json};

/// Method and path of every documented route; ids are filled in.
pub(crate) fn routes() -> Vec<(String, String)> {
    let document = serde_json::to_value(cortex_server::openapi()).unwrap();
    let paths = document["paths"].as_object().unwrap().iter();
    let routes = paths.flat_map(|(path, methods)| {
        let filled = path.replace("{id}", "evt_01J00000000000000000000000").replace("{name}", "ci");
        methods.as_object().unwrap().keys().map(move |method| (method.to_uppercase(), filled.clone()))
    });
    routes.collect()
}

#[tokio::test]
async fn the_document_is_served_as_it_was_agreed() {
    let server = ServerSetup::echoing().start().await;
    let served: Value = server.get("/openapi.json").await.json();
    assert_eq!(served, serde_json::to_value(cortex_server::openapi()).unwrap());
    insta::with_settings!({ sort_maps => true }, { insta::assert_json_snapshot!("openapi", served) });
}

#[tokio::test]
async fn the_document_says_truly_which_routes_need_a_key() {
    let hooks = json!({ "ci": { "key": "key-of-a-hook-0123456789", "text": "x" } });
    let server = ServerSetup::echoing().hooks(hooks).start().await;
    let document = serde_json::to_value(cortex_server::openapi()).unwrap();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let name = format!("{method} {path}");
            let responses = operation["responses"].as_object().unwrap();
            assert!(responses.contains_key("429"), "{name}");
            let filled = path.replace("{id}", "evt_01J00000000000000000000000").replace("{name}", "ci");
            let request = server.request(&method.to_uppercase(), &filled).without_key().json(&json!({}));
            let refused = request.send().await.status == 401;
            let security = operation.get("security").unwrap_or(&document["security"]);
            let needs_none = |security: &Value| {
                let ways = security.as_array().unwrap();
                ways.is_empty() || ways.contains(&json!({}))
            };
            // A hook asks for a proof of its own, and Engram's routes are open only where the settings say so.
            let may_differ = path.starts_with("/hooks/") || path.starts_with("/engram/");
            assert!(may_differ || needs_none(security) != refused, "{name}: {security}");
            assert!(!refused || responses.contains_key("401"), "{name}");
        }
    }
}

#[tokio::test]
async fn every_route_of_the_document_is_401_without_a_key_except_the_open_ones() {
    let hooks = json!({ "ci": { "key": "key-of-a-hook-0123456789", "text": "x" } });
    let server = ServerSetup::echoing().connectors_need_a_key().hooks(hooks).start().await;
    let routes = routes();
    assert!(routes.len() >= 39, "{routes:?}");
    for noun in ["approvals", "grants", "schedules", "tools"] {
        let start = format!("/api/v2/{noun}");
        assert!(routes.iter().any(|(_, path)| path.starts_with(&start)), "{noun} in {routes:?}");
    }
    for (method, path) in routes {
        let answer = server.request(&method, &path).without_key().json(&json!({})).send().await;
        let is_open = |route: &&cortex_server::OpenRoute| route.path == path && route.to == OpenTo::Everybody;
        if OPEN_ROUTES.iter().any(|route| is_open(&route)) {
            assert_eq!(answer.status, 200, "{method} {path}");
        } else if path.contains("/connector/") {
            assert_eq!(
                answer.status, 400,
                "{method} {path}: the session in it opens a socket and nothing else"
            );
        } else if path.starts_with("/approve/") {
            // It opens by a token that this is none of, and says so on a page.
            let expected = 404;
            assert_eq!(
                (answer.status, answer.header("cache-control")),
                (expected, Some("no-store")),
                "{method} {path}"
            );
        } else if path.starts_with("/v1/") {
            let error = &answer.json()["error"];
            let kind = (&error["type"], &error["code"], &error["param"]);
            let expected = (&json!("invalid_request_error"), &json!("invalid_api_key"), &json!(null));
            assert_eq!((answer.status, kind), (401, expected), "{method} {path}");
        } else {
            assert_eq!(answer.seen(), (401, json!({ "error": "unauthorized" })), "{method} {path}");
        }
    }
    for path in ["/", "/nothing", "/api/v2/nothing", "/health/", "/healthz/x", "//health"] {
        let answer = server.request("GET", path).without_key().send().await;
        assert_eq!(answer.seen(), (401, json!({ "error": "unauthorized" })), "{path}");
    }
}

#[test]
fn the_open_routes_are_health_and_doors_with_a_credential_of_their_own() {
    let open: Vec<(&str, OpenTo)> = OPEN_ROUTES.iter().map(|route| (route.path, route.to)).collect();
    let to_all = ["/health", "/healthz", "/readyz", "/approve/*"].map(|path| (path, OpenTo::Everybody));
    let doors = [
        ("/engram/*", OpenTo::LocalEngramClients),
        ("/hooks/*", OpenTo::SendersOfHooks),
        ("/connector", OpenTo::LocalConnectors),
        ("/api/cortex-m/v1/connector", OpenTo::LocalConnectors),
        ("/connector/*", OpenTo::Everybody),
        ("/api/cortex-m/v1/connector/*", OpenTo::Everybody),
    ];
    assert_eq!(open, [&to_all[..], &doors].concat());
}
