//! The conformance program against our own server, a bare one of the protocol, and servers that each have one fault.

use axum::Router;
use axum::extract::ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade};
use axum::extract::{Path, RawQuery, State};
use axum::routing::get;
use cortex_connectors::{ConformanceCheck, Finding, Promise, PromiseState};
use cortex_testkit::{OWNER_KEY, ServerSetup};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::TcpListener;

const SESSION: &str = "3f2a1b4c-8d9e-4f0a-b1c2-d3e4f5a6b7c8";

async fn check(address: SocketAddr, key: Option<&str>) -> Vec<Finding> {
    check_for(Duration::from_secs(30), address, key).await
}

async fn check_for(patience: Duration, address: SocketAddr, key: Option<&str>) -> Vec<Finding> {
    // A second provider is refused, which is as good as the first.
    drop(rustls::crypto::ring::default_provider().install_default());
    let check = ConformanceCheck {
        url: format!("http://{address}/").parse().unwrap(),
        key: key.map(Into::into),
        source: "urn:connector:check".to_owned(),
        connector_id: "check".to_owned(),
        patience,
    };
    let mut told = Vec::new();
    let findings = check.run(|finding| told.push(finding.clone())).await;
    assert_eq!(told, findings, "every finding is told as it is made");
    assert_eq!(findings.iter().map(|finding| finding.check).collect::<Vec<_>>(), Promise::ALL);
    findings
}

fn with_state(findings: &[Finding], state: PromiseState) -> Vec<Promise> {
    findings.iter().filter(|finding| finding.state == state).map(|finding| finding.check).collect()
}

#[tokio::test]
async fn our_own_server_keeps_every_promise() {
    let server = ServerSetup::echoing().start().await;
    let findings = check(server.address(), Some(OWNER_KEY)).await;
    assert_eq!(with_state(&findings, PromiseState::Ok), Promise::ALL, "{findings:#?}");
}

/// What is wrong with a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    None,
    SessionIsNoUuid,
    TakesAnySession,
    NeverAnswers,
    OtherSource,
    IdIsNoUuid,
    EchoesAnother,
    AnswersUnknownTypes,
    DiesOfUnknownTypes,
    PongsWrongly,
    NewIdOnRedelivery,
}

/// A server of the bare protocol: it answers, and that is all.
async fn open(fault: Fault) -> SocketAddr {
    let session = move || async move { if fault == Fault::SessionIsNoUuid { "session-1" } else { SESSION } };
    let router = Router::new()
        .route("/connector", get(session))
        .route("/connector/{session}", get(upgrade))
        .with_state(fault);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, router).await });
    address
}

async fn upgrade(
    State(fault): State<Fault>,
    Path(session): Path<String>,
    RawQuery(query): RawQuery,
    upgrade: WebSocketUpgrade,
) -> axum::response::Response {
    let wants_acks = query.is_some_and(|query| query.contains("ack=1"));
    upgrade.on_upgrade(move |socket| talk(socket, session, wants_acks, fault))
}

async fn talk(mut socket: WebSocket, session: String, wants_acks: bool, fault: Fault) {
    if session != SESSION && fault != Fault::TakesAnySession {
        let close = CloseFrame { code: 1008, reason: "unauthorized".into() };
        return drop(socket.send(Message::Close(Some(close))).await);
    }
    if wants_acks && fault == Fault::NewIdOnRedelivery {
        // It knows that something was not acked, and makes a new message of it.
        drop(socket.send(answer(&json!({}), fault)).await);
    }
    while let Some(Ok(message)) = socket.recv().await {
        let Message::Text(text) = message else { continue };
        if text.as_str() == "ping" && fault == Fault::PongsWrongly {
            drop(socket.send(Message::Text("PONG!".into())).await);
            continue;
        }
        // An exception ends the connection, as it may.
        let Ok(event) = serde_json::from_str::<Value>(&text) else { return };
        let is_inbound = event["type"] == "assistant.message.inbound";
        if is_inbound && (event["id"].is_null() || event["data"]["text"].is_null()) {
            return;
        }
        if !is_inbound && fault == Fault::DiesOfUnknownTypes {
            return;
        }
        let answers = is_inbound && fault != Fault::NeverAnswers;
        if answers || fault == Fault::AnswersUnknownTypes {
            drop(socket.send(answer(&event, fault)).await);
        }
    }
}

fn answer(event: &Value, fault: Fault) -> Message {
    let id = if fault == Fault::IdIsNoUuid { "1".to_owned() } else { ulid_uuid() };
    let echoed = event["data"]["conversationId"].clone();
    let conversation = if fault == Fault::EchoesAnother { json!("another") } else { echoed };
    let answer = json!({
        "specversion": "1.0",
        "type": "assistant.message.outbound",
        "source": if fault == Fault::OtherSource { "urn:other" } else { "urn:cortex-m" },
        "id": id,
        "time": "2026-02-23T14:00:01Z",
        "datacontenttype": "application/json",
        "data": {"connectorId": event["data"]["connectorId"], "conversationId": conversation, "text": "yes"},
    });
    Message::Text(answer.to_string().into())
}

/// A new UUID each time.
fn ulid_uuid() -> String {
    cortex_api::random_uuid(ulid::Ulid::generate().0)
}

#[tokio::test]
async fn a_bare_server_of_the_protocol_keeps_it_and_what_it_lacks_is_no_failure() {
    let findings = check_for(Duration::from_secs(2), open(Fault::None).await, None).await;
    let basics = &Promise::ALL[..5];
    // It answers anything, so also what has only the required attributes.
    let kept: Vec<Promise> = basics.iter().copied().chain([Promise::OptionalAttributes]).collect();
    assert_eq!(with_state(&findings, PromiseState::Ok), kept, "{findings:#?}");
    assert_eq!(with_state(&findings, PromiseState::Failed), [], "{findings:#?}");
    assert_eq!(with_state(&findings, PromiseState::Skipped), [Promise::AckEnds, Promise::Nack]);
    assert!(findings.iter().all(|finding| finding.extra != basics.contains(&finding.check)));
}

#[track_caller]
fn failed(findings: &[Finding], promise: Promise, seen: &str) {
    assert_eq!(with_state(findings, PromiseState::Failed), [promise], "{findings:#?}");
    let finding = findings.iter().find(|finding| finding.check == promise).unwrap();
    assert!(finding.seen.as_deref().unwrap().contains(seen), "{finding:?}");
}

#[tokio::test]
async fn a_server_with_a_fault_is_told_which_promise_it_breaks_and_how() {
    let faults = [
        (Fault::SessionIsNoUuid, Promise::Session, "\"session-1\""),
        (Fault::TakesAnySession, Promise::InvalidSession, "the socket is open"),
        (Fault::OtherSource, Promise::Reply, "source is \"urn:other\" instead of \"urn:cortex-m\""),
        (Fault::IdIsNoUuid, Promise::Reply, "id is \"1\" and no UUID"),
        (Fault::EchoesAnother, Promise::Echo, "came back as \"another\""),
        (Fault::AnswersUnknownTypes, Promise::UnknownType, "it was answered: "),
        (Fault::DiesOfUnknownTypes, Promise::UnknownType, "closed"),
        (Fault::PongsWrongly, Promise::Ping, "ping was answered with \"PONG!\""),
        (Fault::NeverAnswers, Promise::Reply, "nothing within 2 s"),
        (Fault::NewIdOnRedelivery, Promise::AckRedelivery, "its id was "),
    ];
    let checks = faults.map(|(fault, promise, seen)| async move {
        let findings = Box::pin(check_for(Duration::from_secs(2), open(fault).await, None)).await;
        failed(&findings, promise, seen);
    });
    futures::future::join_all(checks).await;
}

#[tokio::test]
async fn a_server_that_nobody_runs_or_that_wants_a_key_fails_at_the_first_promise() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let findings = check(address, None).await;
    failed(&findings, Promise::Session, "refused");
    assert_eq!(with_state(&findings, PromiseState::Skipped), Promise::ALL[1..]);
    let server = ServerSetup::echoing().start().await;
    failed(&check(server.address(), Some("wrong")).await, Promise::Session, "401; give a key with --key");
}
