//! The examples for authors of connectors, each against a real server: a file, its ids again, and a server that restarts.

use cortex_testkit::{ForeignClients, OWNER_KEY, RunningTestServer, ServerSetup, eventually};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::{Child, Command};

const EXAMPLES: [(ForeignClients, &str); 2] =
    [(ForeignClients::Python, "connector.py"), (ForeignClients::Node, "connector.ts")];
const LINES_MAX: usize = 60;
/// A busy machine takes its time.
const ENDS_WITHIN: Duration = Duration::from_secs(60);

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(name)
}

/// None where its packages are not installed.
fn command(language: ForeignClients, name: &str, server: SocketAddr) -> Option<Command> {
    let mut command = language.command(&example(name)).unwrap()?;
    command.env("CORTEX_URL", format!("http://{server}")).env("CORTEX_KEY", OWNER_KEY);
    Some(command)
}

async fn events(server: &RunningTestServer) -> usize {
    server.get("/api/v2/inbox").await.json()["items"].as_array().unwrap().len()
}

#[test]
fn an_example_is_read_at_a_glance() {
    for (_, name) in EXAMPLES {
        let lines = std::fs::read_to_string(example(name)).unwrap().lines().count();
        assert!(lines <= LINES_MAX, "{name} has {lines} lines");
    }
}

#[tokio::test]
async fn every_line_of_a_file_is_answered_and_a_second_run_asks_no_model() {
    for (language, name) in EXAMPLES {
        let server = ServerSetup::echoing().start().await;
        let file = server.home().join("messages.jsonl");
        let lines = r#"{"id": "1", "conversationId": "kitchen", "text": "hello"}
{"id": "2", "conversationId": "hall", "text": "grüße"}
{"id": "3", "conversationId": "kitchen", "text": "bye"}
"#;
        std::fs::write(&file, lines).unwrap();
        for run in 1..=2 {
            let Some(mut command) = command(language, name, server.address()) else { return };
            let output = command.arg(&file).output().await.unwrap();
            let said = String::from_utf8_lossy(&output.stdout).into_owned();
            let mut said: Vec<&str> = said.lines().collect();
            assert!(output.status.success(), "{name}, run {run}: {output:?}");
            let kitchen: Vec<&str> =
                said.iter().copied().filter(|line| line.starts_with("kitchen")).collect();
            assert_eq!(kitchen, ["kitchen: You said: hello", "kitchen: You said: bye"], "{name}, run {run}");
            said.retain(|line| line.starts_with("hall"));
            assert_eq!(said, ["hall: You said: grüße"], "{name}, run {run}");
            assert_eq!(events(&server).await, 3, "{name}, run {run}");
        }
        let delivered = eventually("everything acked", || async {
            let rows = server.get("/api/v2/outbox").await.json();
            let rows = rows["items"].as_array().unwrap().clone();
            rows.iter().all(|row| row["status"] == "delivered").then_some(rows.len())
        });
        assert_eq!(delivered.await, 3, "{name}");
    }
}

/// An address that stays the same while the server behind it restarts elsewhere.
#[derive(Clone)]
struct Door(Arc<Mutex<SocketAddr>>);

impl Door {
    async fn open(to: SocketAddr) -> (Self, SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (door, address) = (Self(Arc::new(Mutex::new(to))), listener.local_addr().unwrap());
        let target = door.clone();
        tokio::spawn(async move {
            while let Ok((mut near, _)) = listener.accept().await {
                let to = *target.0.lock().unwrap();
                tokio::spawn(async move {
                    if let Ok(mut far) = TcpStream::connect(to).await {
                        // Either side may break the line.
                        drop(copy_bidirectional(&mut near, &mut far).await);
                    }
                });
            }
        });
        (door, address)
    }
}

#[tokio::test]
async fn a_conversation_goes_on_after_the_server_restarted() {
    for (language, name) in EXAMPLES {
        let mut server = ServerSetup::echoing().start().await;
        let (door, address) = Door::open(server.address()).await;
        let Some(mut command) = command(language, name, address) else { return };
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut typing = child.stdin.take().unwrap();
        let mut shown = BufReader::new(child.stdout.take().unwrap()).lines();
        typing.write_all(b"before\n").await.unwrap();
        assert_eq!(shown.next_line().await.unwrap().as_deref(), Some("main: You said: before"), "{name}");
        server.restart().await;
        *door.0.lock().unwrap() = server.address();
        typing.write_all(b"after\n").await.unwrap();
        assert_eq!(shown.next_line().await.unwrap().as_deref(), Some("main: You said: after"), "{name}");
        drop(typing);
        assert_eq!(shown.next_line().await.unwrap(), None, "{name}: each answer is shown once");
        assert!(child.wait().await.unwrap().success(), "{name}");
        assert_eq!(events(&server).await, 2, "{name}");
    }
}

/// Asks a process to end, as a terminal or a supervisor does.
async fn signal(child: &Child, name: &str) {
    let pid = child.id().unwrap().to_string();
    assert!(Command::new("kill").args([name, &pid]).status().await.unwrap().success());
}

#[tokio::test]
async fn an_example_ends_well_when_it_is_asked_to() {
    for (language, name) in EXAMPLES {
        let server = ServerSetup::echoing().start().await;
        for asked in ["-INT", "-TERM"] {
            let Some(mut command) = command(language, name, server.address()) else { return };
            let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
            let mut typing = child.stdin.take().unwrap();
            let mut shown = BufReader::new(child.stdout.take().unwrap()).lines();
            typing.write_all(b"hello\n").await.unwrap();
            assert_eq!(shown.next_line().await.unwrap().as_deref(), Some("main: You said: hello"), "{name}");
            signal(&child, asked).await;
            let ended = tokio::time::timeout(ENDS_WITHIN, child.wait()).await;
            assert_eq!(ended.expect("it ends").unwrap().code(), Some(0), "{name} after {asked}");
        }
    }
}

#[tokio::test]
async fn an_example_ends_although_the_assistant_chose_silence() {
    for (language, name) in EXAMPLES {
        let server =
            ServerSetup::scripted(serde_json::json!({ "otherwise": { "say": "NO_REPLY" } })).start().await;
        let file = server.home().join("messages.jsonl");
        std::fs::write(&file, "{\"id\": \"1\", \"text\": \"hush\"}\n").unwrap();
        let Some(mut command) = command(language, name, server.address()) else { return };
        let output = tokio::time::timeout(ENDS_WITHIN, command.arg(&file).output()).await;
        let output = output.expect("it ends").unwrap();
        assert!(output.status.success() && output.stdout.is_empty(), "{name}: {output:?}");
    }
}
