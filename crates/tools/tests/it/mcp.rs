//! The MCP client against a third party's server, over stdio and over HTTP.

use crate::mcp_parts::{call, everything, free_port, ready, run, settings};
use cortex_testkit::eventually;
use cortex_tools::{McpServers, McpSet, McpSettings, McpState, Mutation, ToolCallError};
use serde_json::json;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

fn over_stdio(program: &std::path::Path) -> McpSet {
    let servers: McpServers =
        serde_json::from_value(json!({"everything": {"command": program, "args": ["stdio"]}})).unwrap();
    McpSet::connect(servers, settings())
}

/// The same server over Streamable HTTP; killed when dropped.
struct HttpServer(Child);

impl HttpServer {
    fn start(program: &std::path::Path, port: u16) -> Self {
        let child = Command::new(program)
            .arg("streamableHttp")
            .env("PORT", port.to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        Self(child.unwrap())
    }
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        self.0.kill().and_then(|()| self.0.wait().map(drop)).unwrap_or_default();
    }
}

#[tokio::test]
async fn the_tools_of_a_real_server_are_listed_and_called() {
    let Some(program) = everything() else { return };
    let set = over_stdio(&program);
    assert_eq!(set.status()[0].state, McpState::Connecting, "the start does not wait");
    ready(&set).await;
    let definitions = set.definitions();
    let mutation_of = |name: &str| {
        let found = definitions.iter().find(|definition| definition.name.as_str() == name);
        found.unwrap_or_else(|| panic!("{name} is not in {definitions:?}")).mutation
    };
    assert_eq!(mutation_of("everything.echo"), Mutation::ReadOnly);
    assert_eq!(mutation_of("everything.get-sum"), Mutation::ReadOnly);
    assert_eq!(mutation_of("everything.toggle-simulated-logging"), Mutation::Mutates);
    assert_eq!(call(&set, "everything.echo", json!({"message": "hello"})).await.unwrap(), "Echo: hello");
    let sum = call(&set, "everything.get-sum", json!({"a": 19, "b": 23})).await.unwrap();
    assert_eq!(sum, "The sum of 19 and 23 is 42.");
    let image = call(&set, "everything.get-tiny-image", json!({})).await.unwrap();
    assert!(image.contains("[image: image/png, "), "{image}");
    let wrong = call(&set, "everything.get-sum", json!({"a": "x"})).await;
    assert!(matches!(wrong, Err(ToolCallError::Failed(_) | ToolCallError::NotRun(_))), "{wrong:?}");
    set.stop().await;
    assert_eq!(set.status()[0].state, McpState::Stopped);
    assert_eq!(set.definitions(), []);
    let late = call(&set, "everything.echo", json!({"message": "x"})).await;
    assert!(matches!(late, Err(ToolCallError::NotRun(_))), "{late:?}");
}

#[tokio::test]
async fn a_real_server_is_spoken_to_over_http_and_found_again_after_its_restart() {
    let Some(program) = everything() else { return };
    let port = free_port();
    let running = HttpServer::start(&program, port);
    let url = format!("http://127.0.0.1:{port}/mcp");
    let servers = json!({"web": {"type": "http", "url": url, "headers": {"X-Key": "k"}}});
    let hurried = McpSettings { call_wait: Duration::from_millis(300), ..settings() };
    let set = McpSet::connect(serde_json::from_value(servers).unwrap(), hurried);
    ready(&set).await;
    assert_eq!(call(&set, "web.echo", json!({"message": "hello"})).await.unwrap(), "Echo: hello");
    drop(running);
    // Either nothing was sent, or it is unknown how far it came; it never just failed.
    let lost = call(&set, "web.toggle-simulated-logging", json!({})).await;
    assert!(matches!(lost, Err(ToolCallError::NotRun(_) | ToolCallError::Unknown(_))), "{lost:?}");
    eventually("it was noticed", async || {
        matches!(set.status()[0].state, McpState::Down { .. } | McpState::Connecting).then_some(())
    })
    .await;
    assert!(!set.definitions().is_empty(), "its tools stay while it is away");
    let _running = HttpServer::start(&program, port);
    ready(&set).await;
    assert_eq!(run(&set, "web.echo", r#"{"message":"again"}"#).await.unwrap(), "Echo: again");
    set.stop().await;
}
