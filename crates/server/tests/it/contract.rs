//! The server does what its OpenAPI document says, as a program of others judges that.

use axum::Router;
use axum::routing::get;
use cortex_testkit::{ForeignClients, OWNER_KEY, RunningTestServer, ServerSetup};
use http::StatusCode;
use serde_json::{Value, json};
use std::path::Path;

/// What is tried of each route besides the edges of its document.
const EXAMPLES: &str = "4";

/// The report on a server and a document: all is well, or what was found. Nothing where the program is missing.
async fn judged(server: &RunningTestServer, document: &Value, examples: &str) -> Option<Result<(), String>> {
    let file = server.home().join("openapi.json");
    std::fs::write(&file, document.to_string()).unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/clients/contract.py");
    let base_url = format!("http://{}", server.address());
    let variables = [
        ("BASE_URL", base_url.as_str()),
        ("API_KEY", OWNER_KEY),
        ("DOCUMENT", file.to_str().unwrap()),
        ("EXAMPLES", examples),
    ];
    match ForeignClients::Schemathesis.run(&script, &variables).await {
        Ok(ran) => ran.map(|_| Ok(())),
        Err(found) => Some(Err(found.to_string())),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_server_does_what_its_document_says() {
    let server = ServerSetup::echoing().start().await;
    let document = server.get("/openapi.json").await.json();
    if let Some(Err(found)) = judged(&server, &document, EXAMPLES).await {
        panic!("{found}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_document_that_is_not_true_and_a_server_that_breaks_are_found() {
    let broken = Router::new().route("/broken", get(|| async { StatusCode::INTERNAL_SERVER_ERROR }));
    let server = ServerSetup::echoing().more_routes(broken).start().await;
    let mut document = server.get("/openapi.json").await.json();
    let broken =
        json!({ "get": { "responses": { "200": { "description": "" }, "500": { "description": "" } } } });
    let mut lying = document["paths"]["/api/v2/status"].clone();
    let schema = json!({ "type": "object", "required": ["notThere"] });
    lying["get"]["responses"]["200"]["content"]["application/json"]["schema"] = schema;
    let mut silent = document["paths"]["/api/v2/outbox/{id}"].clone();
    silent["get"]["responses"].as_object_mut().unwrap().remove("404");
    document["paths"] = json!({ "/broken": broken, "/api/v2/status": lying, "/api/v2/outbox/{id}": silent });
    let Some(judged) = judged(&server, &document, "2").await else { return };
    let found = judged.unwrap_err();
    for expected in ["Server error", "Response violates schema", "Undocumented status code"] {
        assert!(found.contains(expected), "{expected} in {found}");
    }
}
