//! Frames that are not accepted: the connector is told why, nothing is kept, and the socket lives.

use cortex_testkit::{Heard, RunningTestServer, ServerSetup, TestConnector, said_over};
use serde_json::{Value, json};

async fn inbox_len(server: &RunningTestServer) -> usize {
    server.get("/api/v2/inbox").await.json()["items"].as_array().unwrap().len()
}

async fn refused(connector: &mut TestConnector, frame: &str) -> (String, String) {
    connector.send_text(frame).await;
    let event = connector.event().await;
    assert_eq!(event["type"], "assistant.message.error", "{event}");
    assert_eq!((&event["specversion"], &event["source"]), (&json!("1.0"), &json!("urn:cortex-m")));
    let text = |field: &str| event["data"][field].as_str().unwrap().to_owned();
    (text("code"), text("message"))
}

#[tokio::test]
async fn a_frame_that_is_no_json_object_gets_an_error_and_the_socket_lives() {
    let server = ServerSetup::echoing().start().await;
    let mut connector = TestConnector::connect(&server, "").await;
    for bad in ["{", "", "hello", "[1]", "\"ping", "42", &"[".repeat(100_000)] {
        assert_eq!(refused(&mut connector, bad).await.0, "invalid_json", "{}", &bad[..bad.len().min(20)]);
    }
    connector.send(&said_over("m", "c", "1", "hello")).await;
    assert_eq!(connector.event().await["data"]["text"], "You said: hello");
}

#[tokio::test]
async fn every_missing_field_is_named_and_only_time_and_content_type_may_be_missing() {
    let server = ServerSetup::echoing().start().await;
    let mut connector = TestConnector::connect(&server, "").await;
    let without = |pointer: &str| {
        let mut event = said_over("m", "c", pointer, "hello");
        let (parent, name) = pointer.rsplit_once('/').unwrap();
        event.pointer_mut(parent).unwrap().as_object_mut().unwrap().remove(name);
        event
    };
    for (pointer, expected) in [
        ("/specversion", "specversion is required"),
        ("/source", "source is required"),
        ("/id", "id is required"),
        ("/type", "type is required"),
        ("/data", "data must be an object"),
        ("/data/connectorId", "data.connectorId is required"),
        ("/data/conversationId", "data.conversationId is required"),
        ("/data/text", "data.text is required"),
    ] {
        let (code, message) = refused(&mut connector, &without(pointer).to_string()).await;
        assert_eq!((code.as_str(), message.as_str()), ("invalid_event", expected), "{pointer}");
    }
    assert_eq!(inbox_len(&server).await, 0, "nothing was kept");
    for pointer in ["/time", "/datacontenttype"] {
        connector.send(&without(pointer)).await;
        assert_eq!(connector.event().await["data"]["text"], "You said: hello", "{pointer}");
    }
}

#[tokio::test]
async fn all_that_is_wrong_with_an_event_is_told_at_once() {
    let server = ServerSetup::echoing().start().await;
    let mut connector = TestConnector::connect(&server, "").await;
    let mut event = said_over("m", "c", "7", "hello");
    event["specversion"] = json!("0.3");
    event["time"] = json!("yesterday");
    event["datacontenttype"] = json!("text/xml");
    event["source"] = json!("");
    event["data"]["text"] = json!(" ");
    event["data"]["conversationId"] = json!(5);
    event["data"]["metadata"] = json!({ "priority": "soon" });
    connector.send(&event).await;
    let told = connector.event().await;
    assert_eq!(told["causationid"], "7", "{told}");
    assert_eq!(told["data"]["connectorId"], "m");
    insta::assert_snapshot!(told["data"]["message"].as_str().unwrap().replace("; ", "\n"));
}

#[tokio::test]
async fn an_event_of_another_type_is_ignored_and_counted() {
    let server = ServerSetup::echoing().start().await;
    let counted = async || {
        let text = server.get("/metrics").await.text();
        let line = text.lines().find(|line| line.starts_with("cortex_connector_unknown_type_total "));
        line.map_or(0, |line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap())
    };
    let before = counted().await;
    let mut connector = TestConnector::connect(&server, "").await;
    let mut event = said_over("m", "c", "1", "hello");
    event["type"] = json!("assistant.presence.changed");
    connector.send(&event).await;
    event["datacontenttype"] = json!("image/png");
    event["data_base64"] = event.as_object_mut().unwrap().remove("data").map(|_| json!("aGk=")).unwrap();
    connector.send(&event).await;
    assert_eq!(connector.so_far().await, [] as [Value; 0], "no answer at all");
    assert!(counted().await > before);
    assert_eq!(inbox_len(&server).await, 0);
}

#[tokio::test]
async fn an_event_for_a_channel_that_is_off_is_refused_and_one_in_shadow_is_not_answered() {
    use cortex_types::{ChannelMode, ChannelSetting, ChannelSettings};
    let setting = |mode| ChannelSetting { mode, topic: None };
    let server = ServerSetup::echoing()
        .flow(move |flow| {
            let channels = [("on", ChannelMode::Live), ("quiet", ChannelMode::Shadow)];
            flow.channels = ChannelSettings {
                default_mode: ChannelMode::Off,
                channels: channels.map(|(name, mode)| (name.to_owned(), setting(mode))).into(),
                ..ChannelSettings::default()
            };
        })
        .start()
        .await;
    let mut off = TestConnector::of_owner(&server, "").await;
    let (code, _) = refused(&mut off, &said_over("unlisted", "c", "1", "hello").to_string()).await;
    assert_eq!((code.as_str(), inbox_len(&server).await), ("channel_off", 0));
    let mut on = TestConnector::of_owner(&server, "").await;
    on.send(&said_over("on", "c", "1", "hello")).await;
    assert_eq!(on.event().await["data"]["text"], "You said: hello", "the mode is that of the connectorId");
    let mut quiet = TestConnector::of_owner(&server, "").await;
    let said = said_over("quiet", "c", "1", "hello");
    quiet.send(&said).await;
    let id = cortex_testkit::eventually("the event", async || {
        let rows = server.get("/api/v2/inbox").await.json();
        let row =
            rows["items"].as_array()?.iter().find(|row| row["source"] == "urn:connector:quiet")?.clone();
        row["eventId"].as_str().map(str::to_owned)
    })
    .await;
    server.ended(&id).await;
    assert_eq!(quiet.so_far().await, [] as [Value; 0], "nothing leaves");
    quiet.send(&said).await;
    assert_eq!(quiet.so_far().await, [] as [Value; 0], "not for a re-sent event either");
}

#[tokio::test]
async fn a_binary_frame_is_read_like_a_text() {
    let server = ServerSetup::echoing().start().await;
    let mut connector = TestConnector::connect(&server, "").await;
    connector.send_bytes(said_over("m", "c", "1", "hello").to_string().into_bytes()).await;
    assert_eq!(connector.event().await["data"]["text"], "You said: hello");
    connector.send_bytes(vec![0xff, 0xfe]).await;
    let Heard::Event(error) = connector.hear().await else { unreachable!("an error is an event") };
    assert_eq!(error["data"]["code"], "invalid_json");
}
