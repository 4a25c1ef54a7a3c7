//! Far sides without measure: what is kept stays small, and what is returned is usable.

use crate::far_side::{Act, FarSide, OPENAI_STOP, events, openai_text, response};
use crate::setup::{ask_listening, config, models, openai_at, profiles, user};
use cortex_models::{Answered, ModelError, ModelsConfig};
use cortex_types::limits::{REPLY_BYTES_MAX, SCHEMA_DEPTH_MAX, TOOL_CALLS_MAX};
use cortex_types::{ChatReply, FinishReason};

async fn answer_of(answer: Vec<Act>) -> (Answered, String) {
    let far_side = FarSide::answering(vec![answer]).await;
    let models = models(ModelsConfig { providers: openai_at(&[&far_side.url]), ..config() }).await;
    ask_listening(&models, &user("hi")).await
}

#[track_caller]
fn check_cut(reply: &ChatReply) {
    assert!(reply.text.ends_with("[The answer was too long and was cut here.]"));
    assert!(reply.text.len() <= REPLY_BYTES_MAX && reply.text.len() > REPLY_BYTES_MAX / 2);
    assert_eq!(reply.finish, FinishReason::Length);
}

#[tokio::test]
async fn five_megabytes_in_one_body_are_cut_with_a_mark() {
    let body = serde_json::json!({
        "choices": [{ "message": { "content": "x".repeat(5_000_000) }, "finish_reason": "stop" }],
    });
    let response = response("200 OK", "application/json", "", &body.to_string());
    let (answered, heard) = answer_of(vec![Act::Send(response.into_bytes())]).await;
    let reply = answered.outcome.unwrap();
    check_cut(&reply);
    assert_eq!(heard, reply.text, "the preview ends where the answer does");
}

#[tokio::test]
async fn an_endless_stream_is_cut_with_a_mark_and_left() {
    let piece = format!("data: {}\n\n", openai_text(&"y".repeat(1_000)));
    let begin = Act::Send(events(&[]).into_bytes());
    let (answered, _) = answer_of(vec![begin, Act::Flood(piece.into_bytes())]).await;
    check_cut(&answered.outcome.unwrap());
}

#[tokio::test]
async fn an_endless_line_is_refused() {
    for begin in [events(&[]) + "data: ", response("200 OK", "application/json", "", "{")] {
        let answer = vec![Act::Send(begin.into_bytes()), Act::Flood(vec![b' '; 65_536])];
        let (answered, _) = answer_of(answer).await;
        let Err(ModelError::Transient { message, .. }) = answered.outcome else { panic!("{answered:?}") };
        assert!(message.contains("bytes without an end"), "{message}");
    }
}

#[tokio::test]
async fn of_two_hundred_tool_calls_the_first_are_kept() {
    let call = |number: usize| {
        serde_json::json!({ "choices": [{ "delta": { "tool_calls": [{
            "index": number, "id": "same", "function": { "name": "x__y", "arguments": "{}" },
        }] } }] })
        .to_string()
    };
    let calls: Vec<String> = (0..200).map(call).collect();
    let all: Vec<&str> = calls.iter().map(String::as_str).chain([OPENAI_STOP]).collect();
    let (answered, _) = answer_of(vec![Act::Send(events(&all).into_bytes())]).await;
    let reply = answered.outcome.unwrap();
    let mut ids: Vec<&str> = reply.tool_calls.iter().map(|call| call.id.as_str()).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), TOOL_CALLS_MAX, "and every id is one of a kind");
    assert!(reply.text.contains("first 32 of 200 tool calls"), "{}", reply.text);
}

#[tokio::test]
async fn arguments_stay_the_text_they_came_as_on_every_wire() {
    // Nobody who builds values of the deep one gets to its end.
    let deep = format!(r#"{{"odd":{}{}}}"#, "[".repeat(1_000), "]".repeat(1_000));
    let crumbs = format!(r#"{{"odd":[{}0]}}"#, r#"{"":0},"#.repeat(20_000));
    for arguments in [deep, crumbs] {
        let odd = arguments.as_str();
        for (kind, said) in [
            (
                "openai",
                vec![format!(
                    r#"{{"choices":[{{"delta":{{"tool_calls":[{{"id":"c","function":{{"name":"x__y","arguments":{odd}}}}}]}},"finish_reason":"tool_calls"}},{odd}]}}"#
                )],
            ),
            (
                "anthropic",
                vec![
                    format!(
                        r#"{{"type":"content_block_start","content_block":{{"type":"tool_use","id":"c","name":"x__y","input":{odd}}}}}"#
                    ),
                    r#"{"type":"message_stop"}"#.to_owned(),
                ],
            ),
            (
                "google",
                vec![format!(
                    r#"{{"candidates":[{{"content":{{"parts":[{{"functionCall":{{"name":"x__y","args":{odd}}}}}]}},"finishReason":"STOP"}},{odd}]}}"#
                )],
            ),
        ] {
            let said: Vec<&str> = said.iter().map(String::as_str).collect();
            let far_side = FarSide::saying(events(&said)).await;
            let profile = serde_json::json!([{ "name": "a", "kind": kind, "baseUrl": far_side.url, "apiKey": "k",
                "models": { "pro": "m" } }]);
            let models = models(ModelsConfig { providers: profiles(profile), ..config() }).await;
            let reply = ask_listening(&models, &user("hi")).await.0.outcome.expect(kind);
            let told = &reply.tool_calls[0].arguments_json;
            // What nests too deep is cut where every tool refuses it.
            let is_too_deep = told.contains(&"[".repeat(SCHEMA_DEPTH_MAX))
                && odd.contains(told.split("null").next().unwrap());
            assert!(told == odd || is_too_deep, "{kind}: {told}");
        }
    }
}

#[tokio::test]
async fn an_error_of_any_shape_is_told_in_its_words() {
    let deep = format!("{}{}", "[".repeat(1_000), "]".repeat(1_000));
    let event = format!(r#"{{"error":{{"odd":{deep},"message":"the words","type":"server_error"}}}}"#);
    let page = response("500 Internal Server Error", "application/json", "", &event);
    for answer in [events(&[&event]), page] {
        let (answered, _) = answer_of(vec![Act::Send(answer.into_bytes())]).await;
        let Err(ModelError::Transient { message, .. }) = answered.outcome else { panic!("{answered:?}") };
        assert!(message.ends_with("(500): the words"), "{message}");
    }
}

#[tokio::test]
async fn an_event_with_a_list_without_measure_is_refused() {
    let call = r#"{"id":"","function":{"name":"x__y"}},"#.repeat(100_000);
    let event = format!(r#"{{"choices":[{{"delta":{{"tool_calls":[{}]}}}}]}}"#, call.trim_end_matches(','));
    let (answered, _) = answer_of(vec![Act::Send(events(&[&event]).into_bytes())]).await;
    let Err(ModelError::Transient { message, .. }) = answered.outcome else { panic!("{answered:?}") };
    assert!(message.contains("a list is longer than"), "{message}");
}

#[tokio::test]
async fn an_error_page_of_any_size_makes_a_short_message() {
    let page = response("503 Service Unavailable", "text/html", "", &"<p>busy</p>\n".repeat(1_000_000));
    let (answered, _) = answer_of(vec![Act::Send(page.into_bytes())]).await;
    let Err(ModelError::Transient { message, .. }) = answered.outcome else { panic!("no transient error") };
    assert!(message.len() < 400 && !message.contains('\n'), "{message}");
}
