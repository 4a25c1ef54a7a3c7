//! A client's own request, passed on to far sides without measure, and to some that fall silent.

use crate::far_side::{Act, FarSide, events, response};
use crate::setup::{config, models, openai_at, profiles};
use cortex_models::{
    Models, ModelsConfig, NoRoom, RelayBody, RelayPath, RelayRefused, RelayRequest, Relayed, Room, Timeouts,
};
use cortex_types::ModelCall;
use futures::StreamExt;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::time::timeout;

const EVENTS: &str = "text/event-stream";
const JSON: &str = "application/json";

async fn models_at(urls: &[&str], idle: Duration) -> Models {
    let timeouts = Timeouts { idle, ..config().timeouts };
    models(ModelsConfig { providers: openai_at(urls), timeouts, ..config() }).await
}

/// So many bytes are all that may be held.
struct Limited(usize);

impl Room for Limited {
    fn hold(&self, bytes: usize) -> Result<(), NoRoom> {
        if bytes <= self.0 { Ok(()) } else { Err(NoRoom) }
    }
}

async fn relay(
    models: &Models,
    stream: bool,
) -> (Result<Relayed, RelayRefused>, UnboundedReceiver<ModelCall>) {
    relay_in(usize::MAX, models, stream).await
}

async fn relay_in(
    most: usize,
    models: &Models,
    stream: bool,
) -> (Result<Relayed, RelayRefused>, UnboundedReceiver<ModelCall>) {
    let body = r#"{"model":"gpt-4o","messages":[]}"#.into();
    let request = RelayRequest { path: RelayPath::Chat, model: "gpt-4o".to_owned(), stream, body };
    let (calls, made) = unbounded_channel();
    let room: Arc<dyn Room> = Arc::new(Limited(most));
    (models.relay(&request, &calls, &room).await, made)
}

/// What a provider that says this is counted for.
async fn counted(content_type: &str, stream: bool, body: &str) -> ModelCall {
    let far_side = FarSide::saying(response("200 OK", content_type, "", body)).await;
    let models = models_at(&[&far_side.url], config().timeouts.idle).await;
    let (relayed, mut made) = relay(&models, stream).await;
    match relayed.unwrap().body {
        RelayBody::Whole(bytes) => assert_eq!(bytes, body.as_bytes()),
        RelayBody::Stream(chunks) => {
            let chunks: Vec<_> = chunks.map(Result::unwrap).collect().await;
            assert_eq!(chunks.concat(), body.as_bytes());
        }
    }
    made.recv().await.unwrap()
}

#[tokio::test]
async fn one_endless_line_reaches_the_client_and_is_not_kept() {
    const LENGTH: usize = 64 * 1024 * 1024;
    let line = Act::Send(vec![b'x'; LENGTH]);
    let usage = Act::Send(b"\n\ndata: {\"usage\":{\"prompt_tokens\":3}}\n\n".to_vec());
    let begin = Act::Send(response("200 OK", EVENTS, "", "data: ").into_bytes());
    let far_side = FarSide::answering(vec![vec![begin, line, usage]]).await;
    let models = models_at(&[&far_side.url], config().timeouts.idle).await;
    let (relayed, mut made) = relay(&models, true).await;
    let RelayBody::Stream(mut chunks) = relayed.unwrap().body else { panic!("no stream") };
    let mut seen = 0;
    while let Some(chunk) = chunks.next().await {
        seen += chunk.unwrap().len();
    }
    assert!(seen > LENGTH, "{seen} bytes came");
    assert_eq!(made.recv().await.unwrap().usage.input, 0, "after it nothing is looked for");
}

#[tokio::test]
async fn counts_are_found_beside_whatever_else_an_answer_holds() {
    let crumbs = format!("[{}0]", r#"{"":0},"#.repeat(100_000));
    // Nobody who builds values of this gets to its end.
    let deep = format!("{}{}", "[".repeat(1_000), "]".repeat(1_000));
    for odd in [crumbs, deep] {
        let body =
            format!(r#"{{"odd":{odd},"usage":{{"odd":{odd},"prompt_tokens":11,"completion_tokens":7}}}}"#);
        let call = counted(JSON, false, &body).await;
        assert_eq!((call.usage.input, call.usage.output), (11, 7));
        let call = counted(EVENTS, true, &format!("data: {body}\n\ndata: [DONE]\n\n")).await;
        assert_eq!((call.usage.input, call.usage.output), (11, 7));
    }
}

#[tokio::test]
async fn a_listing_is_read_for_its_names_and_only_so_many_are_kept() {
    let deep = format!("{}{}", "[".repeat(1_000), "]".repeat(1_000));
    let crumbs = "{},1,".repeat(200_000);
    let many: Vec<String> = (0..60_000).map(|number| format!(r#"{{"id":"m{number}"}}"#)).collect();
    for (rows, least, most) in [
        (format!(r#"{{"id":"far-2","odd":{deep}}},{crumbs}{{"id":"far-3"}}"#), 3, 3),
        (many.join(","), 1_000, 10_000),
    ] {
        let listing = response("200 OK", JSON, "", &format!(r#"{{"odd":{deep},"data":[{rows}]}}"#));
        let far_side = FarSide::saying(listing).await;
        let models = models_at(&[&far_side.url], config().timeouts.idle).await;
        let listed =
            timeout(Duration::from_secs(60), models.listed_models(&Limited(usize::MAX))).await.unwrap();
        let listed = listed.unwrap();
        assert!((least..=most).contains(&listed.len()), "{}", listed.len());
    }
}

#[tokio::test]
async fn what_finds_no_room_is_refused_and_nobody_else_is_asked() {
    let large = format!(r#"{{"text":"{}"}}"#, "x".repeat(100_000));
    let far_side = FarSide::saying(response("200 OK", JSON, "", &large)).await;
    let other = FarSide::saying(response("200 OK", JSON, "", "{}")).await;
    let models = models_at(&[&far_side.url, &other.url], config().timeouts.idle).await;
    let (refused, mut made) = relay_in(50_000, &models, false).await;
    assert_eq!(refused.err(), Some(RelayRefused::NoRoom(NoRoom)));
    assert_eq!((made.recv().await.unwrap().profile.as_str(), other.calls()), ("a", 0));
    assert_eq!(models.listed_models(&Limited(50_000)).await, Err(NoRoom));
}

/// Full for so many questions, until somebody else is done; keeps what was asked for.
#[derive(Default)]
struct Busy {
    questions: usize,
    asked: Mutex<Vec<usize>>,
}

impl Room for Busy {
    fn hold(&self, bytes: usize) -> Result<(), NoRoom> {
        let mut asked = self.asked.lock().unwrap();
        asked.push(bytes);
        if asked.len() > self.questions { Ok(()) } else { Err(NoRoom) }
    }
}

#[tokio::test]
async fn an_answer_that_was_paid_for_waits_for_room_as_a_whole() {
    let large = format!(r#"{{"text":"{}"}}"#, "x".repeat(100_000));
    let length = format!("content-length: {}\r\n", large.len());
    let far_side = FarSide::saying(response("200 OK", JSON, &length, &large)).await;
    let models = models_at(&[&far_side.url], config().timeouts.idle).await;
    let busy = Arc::new(Busy { questions: 3, asked: Mutex::default() });
    let room = Arc::clone(&busy) as Arc<dyn Room>;
    let body = r#"{"model":"gpt-4o","messages":[]}"#.into();
    let request = RelayRequest { path: RelayPath::Chat, model: "gpt-4o".to_owned(), stream: false, body };
    let relayed = models.relay(&request, &unbounded_channel().0, &room).await.map(|relayed| relayed.body);
    let Ok(RelayBody::Whole(bytes)) = relayed else { panic!("{:?}", relayed.err()) };
    assert_eq!((bytes.len(), busy.asked.lock().unwrap()[0]), (large.len(), large.len()));
}

#[tokio::test]
async fn a_stream_that_cannot_be_read_for_want_of_room_reaches_the_client() {
    let line = format!("data: {{\"text\":\"{}", "x".repeat(1_000_000));
    let far_side = FarSide::saying(response("200 OK", EVENTS, "", &line)).await;
    let models = models_at(&[&far_side.url], config().timeouts.idle).await;
    let (relayed, _made) = relay_in(50_000, &models, true).await;
    let RelayBody::Stream(chunks) = relayed.unwrap().body else { panic!("no stream") };
    let chunks: Vec<_> = chunks.map(Result::unwrap).collect().await;
    assert_eq!(chunks.concat(), line.as_bytes());
}

#[tokio::test]
async fn answers_of_other_wires_count_while_they_are_collected() {
    let text = "x".repeat(1_000);
    let piece = format!(r#"{{"candidates":[{{"content":{{"parts":[{{"text":"{text}"}}]}}}}]}}"#);
    let whole = events(&vec![piece.as_str(); 200]);
    let far_side = FarSide::saying(whole).await;
    let providers = profiles(serde_json::json!([{ "name": "g", "kind": "google", "baseUrl": far_side.url,
        "apiKey": "k", "models": { "pro": "gpt-4o" } }]));
    let models = models(ModelsConfig { providers, ..config() }).await;
    let (refused, _) = relay_in(100_000, &models, false).await;
    assert_eq!(refused.err(), Some(RelayRefused::NoRoom(NoRoom)));
}

/// Good headers of an answer whose body never comes.
fn silent(status: &str) -> Vec<Act> {
    let head = format!("HTTP/1.1 {status}\r\ncontent-type: {JSON}\r\ncontent-length: 100\r\n\r\n");
    vec![Act::Send(head.into_bytes()), Act::Hang]
}

#[tokio::test]
async fn a_provider_that_falls_silent_after_a_bad_status_is_left_for_the_next_one() {
    const WHOLE: &str = r#"{"choices":[]}"#;
    let idle = Duration::from_millis(300);
    for status in ["503 Service Unavailable", "429 Too Many Requests", "400 Bad Request"] {
        let mute = FarSide::answering(vec![silent(status)]).await;
        let well = FarSide::saying(response("200 OK", JSON, "", WHOLE)).await;
        for stream in [false, true] {
            let both = models_at(&[&mute.url, &well.url], idle).await;
            let (relayed, _) = timeout(Duration::from_secs(10), relay(&both, stream)).await.expect(status);
            let relayed = relayed.unwrap();
            let RelayBody::Whole(body) = relayed.body else { panic!("{status}: no whole body") };
            assert_eq!((relayed.status, &body[..]), (200, WHOLE.as_bytes()), "{status}");
        }
        let alone = models_at(&[&mute.url], idle).await;
        let (refused, _) = timeout(Duration::from_secs(10), relay(&alone, false)).await.expect(status);
        let told = refused.err().unwrap();
        assert!(matches!(told, RelayRefused::Exhausted { .. } | RelayRefused::Limited { .. }), "{told:?}");
    }
}
