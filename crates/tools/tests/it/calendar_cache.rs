//! Calendars from the net: fetched when needed, asked again only whether they changed, and there without a net.

use crate::calendar::context;
use cortex_tools::{CalendarSource, CalendarTools, Egress, EgressConfig, ToolName, ToolRunner};
use cortex_types::Millis;
use jiff::tz::TimeZone;
use std::path::Path;
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

const START: i64 = 1_781_092_800_000;
const MINUTE: i64 = 60_000;

fn calendar(title: &str) -> String {
    format!(
        "BEGIN:VCALENDAR\nBEGIN:VEVENT\nSUMMARY:{title}\nDTSTART:20260611T080000Z\nEND:VEVENT\nEND:VCALENDAR\n"
    )
}

fn tools(port: u16, cache: &Path) -> CalendarTools {
    let egress = Egress::new(EgressConfig {
        allow: vec![format!("127.0.0.1:{port}").parse().unwrap()],
        ..EgressConfig::default()
    });
    let source =
        CalendarSource::new("team", &format!("http://127.0.0.1:{port}/private-a1b2c3/team.ics")).unwrap();
    CalendarTools::new(
        vec![source],
        TimeZone::get("Europe/Berlin").unwrap(),
        cache.to_owned(),
        Arc::new(egress),
    )
}

/// The answer without its two head lines.
async fn next_at(tools: &CalendarTools, minutes: i64) -> String {
    let name = ToolName::new("calendar", "next").unwrap();
    let outcome = tools.run(&name, "{}", &context(Millis(START + minutes * MINUTE))).await.unwrap();
    outcome.text.lines().skip(2).collect::<Vec<_>>().join("\n")
}

/// Answers one request and gives what was asked.
async fn serve(listener: &TcpListener, answer: String) -> String {
    let (mut stream, _) = listener.accept().await.unwrap();
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).await.unwrap();
        request.push(byte[0]);
    }
    stream.write_all(answer.as_bytes()).await.unwrap();
    stream.shutdown().await.unwrap();
    String::from_utf8(request).unwrap().to_lowercase()
}

fn full(title: &str, etag: &str) -> String {
    let body = calendar(title);
    format!(
        "HTTP/1.1 200 OK\r\netag: {etag}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    )
}

#[tokio::test]
async fn a_calendar_is_fetched_once_and_then_only_asked_for_changes() {
    let folder = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let tools = tools(listener.local_addr().unwrap().port(), folder.path());

    let (first, request) = tokio::join!(next_at(&tools, 0), serve(&listener, full("One", "\"v1\"")));
    assert_eq!(first, "Thu 2026-06-11 10:00 One [team]");
    assert!(!request.contains("if-none-match"), "{request}");

    assert_eq!(next_at(&tools, 4).await, first, "fresh enough not to ask");

    let unchanged = "HTTP/1.1 304 Not Modified\r\nconnection: close\r\n\r\n".to_owned();
    let (second, request) = tokio::join!(next_at(&tools, 6), serve(&listener, unchanged));
    assert_eq!(second, first);
    assert!(request.contains("if-none-match: \"v1\""), "{request}");
    assert_eq!(next_at(&tools, 10).await, first, "fresh again");

    let (third, _) = tokio::join!(next_at(&tools, 20), serve(&listener, full("Two", "\"v2\"")));
    assert_eq!(third, "Thu 2026-06-11 10:00 Two [team]");
}

#[tokio::test]
async fn without_a_net_the_kept_calendar_is_shown_with_its_date() {
    let folder = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let before = tools(port, folder.path());
    tokio::join!(next_at(&before, 0), serve(&listener, full("One", "\"v1\"")));

    let error =
        "HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\nconnection: close\r\n\r\n".to_owned();
    let tools = tools(port, folder.path());
    let (refused, _) = tokio::join!(next_at(&tools, 10), serve(&listener, error));
    assert_eq!(
        refused,
        "Thu 2026-06-11 10:00 One [team]\nNote: team: not reachable (the server answered 503); shown as it was on 2026-06-10 at 14:00"
    );
    drop(listener);
    let offline = next_at(&tools, 20).await;
    assert!(offline.starts_with("Thu 2026-06-11 10:00 One [team]\nNote: team: not reachable ("), "{offline}");
    assert!(!offline.contains("private-a1b2c3"), "a private address is a secret: {offline}");
}

#[tokio::test]
async fn a_calendar_that_was_never_fetched_is_said_to_be_missing() {
    let folder = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let tools = tools(listener.local_addr().unwrap().port(), folder.path());
    drop(listener);
    let answer = next_at(&tools, 0).await;
    assert!(
        answer.starts_with("Note: team cannot be read: ") && answer.ends_with("nothing is kept from before"),
        "{answer}"
    );
    assert!(!answer.contains("private-a1b2c3"), "{answer}");
}

#[test]
fn what_is_kept_can_be_read_by_its_owner_alone_and_does_not_name_the_address() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let cache = folder.path().join("calendars");
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let tools = tools(listener.local_addr().unwrap().port(), &cache);
        tokio::join!(next_at(&tools, 0), serve(&listener, full("One", "\"v1\"")));
    });
    let files: Vec<_> = std::fs::read_dir(&cache).unwrap().map(Result::unwrap).collect();
    assert_eq!(files.len(), 2);
    for file in files {
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600, "{file:?}");
        assert!(!std::fs::read_to_string(file.path()).unwrap().contains("private-a1b2c3"), "{file:?}");
    }
}
