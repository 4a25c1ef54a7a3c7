//! What the client makes of answers, good and bad.

use cortex_api::{Client, ClientError, ErrorCode, LiveDelta, LiveEvent, PollRequest, ScheduleRequest};
use futures::StreamExt;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread::JoinHandle;

/// Answers one connection with fixed bytes and gives back what was asked.
fn answering(status: &str, headers: &str, body: &str) -> (Client, JoinHandle<String>) {
    rustls::crypto::ring::default_provider().install_default().unwrap_or_default();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let answer = format!(
        "HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n{headers}\r\n{body}",
        body.len()
    );
    let asked = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut seen = Vec::new();
        let mut chunk = [0_u8; 4096];
        while !is_whole(&seen) {
            let count = stream.read(&mut chunk).unwrap();
            seen.extend_from_slice(&chunk[..count]);
        }
        stream.write_all(answer.as_bytes()).unwrap();
        String::from_utf8(seen).unwrap()
    });
    (Client::new(&url, Some("the-token".into())).unwrap(), asked)
}

/// Whether head and body of a request are there.
fn is_whole(request: &[u8]) -> bool {
    let text = String::from_utf8_lossy(request);
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap_or("0");
    body.len() >= length.parse().unwrap()
}

#[tokio::test]
async fn a_poll_asks_as_the_seed_says_and_reads_the_five_fields() {
    let body = r#"{"messages":[{"messageId":"out_01ARZ3NDEKTSV4RRFFQ69G5FAV","leaseToken":"lease_01ARZ3NDEKTSV4RRFFQ69G5FAV","topicKey":"t","text":"hi","payload":null}]}"#;
    let (client, asked) = answering("200 OK", "content-type: application/json\r\n", body);
    let request = PollRequest { source: "telegram".into(), max: Some(3), ..PollRequest::default() };
    let answer = client.poll(&request).await.unwrap();
    assert_eq!(serde_json::to_string(&answer).unwrap(), body);
    let asked = asked.join().unwrap();
    assert!(asked.starts_with("POST /outbox/poll HTTP/1.1\r\n"), "{asked}");
    assert!(asked.contains("authorization: Bearer the-token\r\n"), "{asked}");
    assert!(asked.ends_with("\r\n\r\n{\"source\":\"telegram\",\"max\":3}"), "{asked}");
}

#[tokio::test]
async fn a_refusal_keeps_its_code_and_its_details() {
    let body = r#"{"error":"invalid_request","details":["max must be between 1 and 100"]}"#;
    let (client, _) = answering("400 Bad Request", "", body);
    match client.poll(&PollRequest::default()).await {
        Err(ClientError::Api { status: 400, body }) => {
            assert_eq!((body.error, body.details.len()), (ErrorCode::InvalidRequest, 1));
        }
        other => assert_eq!(format!("{other:?}"), "a refusal"),
    }
    let (client, _) = answering("401 Unauthorized", "", r#"{"error":"unauthorized"}"#);
    assert!(matches!(client.status().await, Err(ClientError::Unauthorized)));
}

#[tokio::test]
async fn a_command_says_everything_with_its_address() {
    let row = r#"{"approvalId":"apv_01ARZ3NDEKTSV4RRFFQ69G5FAV","eventId":"evt_01ARZ3NDEKTSV4RRFFQ69G5FAV","source":"cli","topicKey":"t","userId":"u","toolName":"a.b","toolArgumentsJson":"{}","question":"May I?","verbatim":"","status":"approved","resolvedBy":"owner","resolvedAt":null,"expiresAt":"2026-02-15T20:30:00.000Z","createdAt":"2026-02-15T20:15:00.000Z"}"#;
    let (client, asked) = answering("200 OK", "content-type: application/json\r\n", row);
    let approved = client.approve(&"apv_01ARZ3NDEKTSV4RRFFQ69G5FAV".parse().unwrap()).await.unwrap();
    assert_eq!(serde_json::to_string(&approved).unwrap(), row);
    let asked = asked.join().unwrap();
    assert!(asked.starts_with("POST /api/v2/approvals/apv_01ARZ3NDEKTSV4RRFFQ69G5FAV/approve HTTP/1.1\r\n"));
    assert!(asked.ends_with("\r\n\r\n{}"), "{asked}");
}

#[tokio::test]
async fn an_answer_without_a_body_is_an_answer() {
    let (client, asked) = answering("204 No Content", "", "");
    client.trust_tools("a/b", "0f").await.unwrap();
    let asked = asked.join().unwrap();
    assert!(asked.starts_with("POST /api/v2/tools/a%2Fb/trust HTTP/1.1\r\n"));
    assert!(asked.ends_with("\r\n\r\n{\"digest\":\"0f\"}"), "{asked}");
    let (client, _) = answering("404 Not Found", "", r#"{"error":"not_found"}"#);
    let refused = client.revoke_grant(&"grt_01ARZ3NDEKTSV4RRFFQ69G5FAV".parse().unwrap()).await;
    assert!(matches!(refused, Err(ClientError::Api { status: 404, .. })), "{refused:?}");
}

#[tokio::test]
async fn a_schedule_is_asked_for_with_only_what_was_said() {
    let (client, asked) = answering("201 Created", "", r#"{"text":"created schedule 1"}"#);
    let request = ScheduleRequest {
        when: Some("every day at 9".into()),
        what: Some("stretch".into()),
        ..ScheduleRequest::default()
    };
    assert_eq!(client.create_schedule(&request).await.unwrap().text, "created schedule 1");
    let asked = asked.join().unwrap();
    assert!(asked.ends_with(r#"{"when":"every day at 9","what":"stretch"}"#), "{asked}");
}

#[tokio::test]
async fn a_redirect_is_not_followed_and_a_stranger_is_recognised() {
    let (client, _) = answering("302 Found", "location: http://127.0.0.1:1/\r\n", "");
    assert!(matches!(client.status().await, Err(ClientError::Protocol { .. })));
    let (client, _) = answering("200 OK", "", "<html>");
    assert!(matches!(client.status().await, Err(ClientError::Protocol { .. })));
}

#[tokio::test]
async fn nobody_there_is_unreachable_and_not_a_protocol() {
    rustls::crypto::ring::default_provider().install_default().unwrap_or_default();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let client = Client::new(&url, None).unwrap();
    assert!(matches!(client.health().await, Err(ClientError::Unreachable { .. })));
    assert!(matches!(Client::new("file:///etc/passwd", None), Err(ClientError::Protocol { .. })));
}

#[tokio::test]
async fn a_live_stream_is_read_event_by_event() {
    let body = ": hello\n\nevent: delta\ndata: {\"text\":\"a\"}\n\nevent: restart\ndata: {}\n\nevent: done\ndata: {\"status\":\"done\",\"text\":\"b\"}\n\n";
    let (client, _) = answering("200 OK", "content-type: text/event-stream\r\n", body);
    let event = "evt_01ARZ3NDEKTSV4RRFFQ69G5FAV".parse().unwrap();
    let events: Vec<LiveEvent> = client.live(&event).await.unwrap().map(Result::unwrap).collect().await;
    assert_eq!(events[0], LiveEvent::Delta(LiveDelta { text: "a".into() }));
    assert_eq!(events[1], LiveEvent::Restart);
    assert_eq!(events[2].data().unwrap(), r#"{"status":"done","text":"b"}"#);
    assert_eq!(events.len(), 3);
}
