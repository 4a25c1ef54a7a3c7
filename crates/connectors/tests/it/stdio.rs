//! The bridge of JSON lines, between two pipes and a real server.

use cortex_connectors::{Stdio, StdioFailure};
use cortex_testkit::{RunningTestServer, ServerSetup, eventually};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// A program on the other side of the pipes.
struct Program {
    says: DuplexStream,
    hears: Lines<BufReader<DuplexStream>>,
    bridge: JoinHandle<Result<(), StdioFailure>>,
}

impl Program {
    fn start(server: &RunningTestServer, auto_ack: bool) -> Self {
        Self::start_with_pipe(server, auto_ack, 64 * 1024)
    }

    fn start_with_pipe(server: &RunningTestServer, auto_ack: bool, pipe_bytes: usize) -> Self {
        Self::start_as("door", server, auto_ack, pipe_bytes)
    }

    fn start_as(source: &str, server: &RunningTestServer, auto_ack: bool, pipe_bytes: usize) -> Self {
        let (says, input) = tokio::io::duplex(64 * 1024);
        let (output, hears) = tokio::io::duplex(pipe_bytes);
        let bridge = Stdio {
            client: server.client(),
            source: source.to_owned(),
            auto_ack,
            stop: CancellationToken::new(),
        };
        let bridge = tokio::spawn(bridge.run(BufReader::new(input), output));
        Self { says, hears: BufReader::new(hears).lines(), bridge }
    }

    async fn say(&mut self, line: &str) {
        self.says.write_all(format!("{line}\n").as_bytes()).await.unwrap();
    }

    async fn hear(&mut self) -> Value {
        serde_json::from_str(&self.hears.next_line().await.unwrap().unwrap()).unwrap()
    }

    /// The program ends.
    async fn end(mut self) {
        self.says.shutdown().await.unwrap();
        self.bridge.await.unwrap().unwrap();
    }
}

fn event(id: u32, text: &str) -> String {
    json!({"id": id, "topic": "hall", "user": "ada", "text": text}).to_string()
}

async fn first_message(server: &RunningTestServer) -> Value {
    server.get("/api/v2/outbox").await.json()["items"][0].clone()
}

#[tokio::test]
async fn a_message_is_delivered_when_the_program_says_so() {
    let server = ServerSetup::echoing().start().await;
    let mut program = Program::start(&server, false);
    program.say(&event(1, "hello")).await;
    let message = program.hear().await;
    assert_eq!((&message["topic"], &message["text"]), (&json!("hall"), &json!("You said: hello")));
    assert!(message.get("payload").is_none());
    assert_eq!(first_message(&server).await["status"], "leased", "not acknowledged yet");
    program.say(&json!({"ack": message["messageId"]}).to_string()).await;
    eventually("the ack", async || (first_message(&server).await["status"] == "delivered").then_some(()))
        .await;
    program.say(&json!({"ack": message["messageId"]}).to_string()).await;
    assert!(program.hear().await["error"].as_str().unwrap().contains("does not wait for an ack"));
    program.end().await;
}

#[tokio::test]
async fn a_written_line_is_enough_when_the_bridge_acknowledges_by_itself() {
    let server = ServerSetup::echoing().start().await;
    let mut program = Program::start(&server, true);
    program.say(&event(1, "hello")).await;
    program.hear().await;
    eventually("the ack", async || (first_message(&server).await["status"] == "delivered").then_some(()))
        .await;
    program.end().await;
}

#[tokio::test]
async fn a_bad_line_is_answered_and_the_bridge_goes_on() {
    let server = ServerSetup::echoing().start().await;
    let mut program = Program::start(&server, true);
    program.say("hello").await;
    assert_eq!(program.hear().await["line"], 1);
    program.say("").await;
    program.say(&event(1, "")).await;
    let refused = program.hear().await;
    assert_eq!(refused["line"], 3);
    assert!(refused["error"].as_str().unwrap().contains("text"), "the server's own words: {refused}");
    program.say(&event(2, "hello")).await;
    assert_eq!(program.hear().await["text"], "You said: hello");
    program.end().await;
}

#[tokio::test]
async fn a_bridge_that_is_not_let_in_ends_and_says_so() {
    let server = ServerSetup::echoing().start().await;
    let mut program = Program::start_as("local:x", &server, true, 64 * 1024);
    program.say(&event(1, "hello")).await;
    let ended = tokio::time::timeout(std::time::Duration::from_secs(60), program.bridge).await;
    let ended = ended.unwrap().unwrap();
    assert!(matches!(&ended, Err(StdioFailure::NotLetIn(reason)) if reason.contains("403")), "{ended:?}");
}

#[tokio::test]
async fn what_was_not_acknowledged_is_given_back_at_the_end() {
    let server = ServerSetup::echoing().start().await;
    let mut program = Program::start(&server, false);
    program.say(&event(1, "hello")).await;
    program.hear().await;
    program.end().await;
    let row = first_message(&server).await;
    assert_eq!(row["status"], "pending");
    assert!(row["lastError"].as_str().unwrap().contains("without acknowledging"), "{row}");
}

#[tokio::test]
async fn a_program_that_does_not_read_does_not_hold_up_the_end() {
    let server = ServerSetup::echoing().start().await;
    let mut program = Program::start_with_pipe(&server, true, 8);
    program.say(&event(1, "hello")).await;
    eventually("the claim", async || (first_message(&server).await["status"] == "leased").then_some(()))
        .await;
    program.end().await;
    assert_eq!(first_message(&server).await["status"], "pending", "given back");
}

#[tokio::test]
async fn the_same_event_twice_is_answered_once() {
    let server = ServerSetup::echoing().start().await;
    let mut program = Program::start(&server, true);
    program.say(&event(1, "hello")).await;
    program.say(&event(1, "hello")).await;
    program.say(&event(2, "again")).await;
    assert_eq!(program.hear().await["text"], "You said: hello");
    assert_eq!(program.hear().await["text"], "You said: again");
    program.end().await;
    assert_eq!(server.get("/api/v2/inbox").await.json()["items"].as_array().unwrap().len(), 2);
}
