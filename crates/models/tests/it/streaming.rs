//! What comes in on each wire: text, tool calls and counts, streamed or in one piece.

use crate::far_side::{Act, FarSide, events, response};
use crate::setup::{ask_listening, config, models, profiles, text, user};
use cortex_models::{Answered, ModelsConfig};
use cortex_types::{ChatReply, FinishReason, TokenUsage, ToolCall};
use serde_json::json;
use std::time::Duration;

async fn answer_of(kind: &str, response: Vec<Act>) -> (Answered, String) {
    let far_side = FarSide::answering(vec![response]).await;
    let profile = json!({ "name": "a", "kind": kind, "baseUrl": far_side.url, "apiKey": "k", "models": { "pro": "gpt-4o" } });
    let models = models(ModelsConfig { providers: profiles(json!([profile])), ..config() }).await;
    ask_listening(&models, &user("hi")).await
}

fn call(id: &str, name: &str, arguments_json: &str) -> ToolCall {
    ToolCall { id: id.to_owned(), name: name.to_owned(), arguments_json: arguments_json.to_owned() }
}

/// The same answer whether its bytes come at once or one by one.
#[track_caller]
fn check_whole(kind: &str, (answered, heard): (Answered, String), preview: &str, reply: &ChatReply) {
    assert_eq!(answered.outcome.as_ref(), Ok(reply), "{kind}");
    assert_eq!(heard, preview, "{kind}");
    let [call] = answered.calls.as_slice() else { panic!("{:?}", answered.calls) };
    assert_eq!((call.provider.as_str(), call.profile.as_str(), call.usage), (kind, "a", reply.usage));
    assert_eq!(answered.answering_call(), Some(call));
}

async fn check(kind: &str, stream: &str, preview: &str, reply: ChatReply) {
    let whole = stream.as_bytes().to_vec();
    let dripping = vec![Act::Drip(whole.clone(), Duration::from_micros(10))];
    check_whole(kind, answer_of(kind, vec![Act::Send(whole)]).await, preview, &reply);
    check_whole(kind, answer_of(kind, dripping).await, preview, &reply);
}

#[tokio::test]
async fn openai_streams_text_calls_and_counts() {
    let stream = events(&[
        r#"{"choices":[{"delta":{"role":"assistant","content":""},"finish_reason":null}]}"#,
        r#"{"choices":[{"delta":{"content":"Grüße"}}]}"#,
        r#"{"choices":[{"delta":{"content":" 🌍"}}]}"#,
        r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"c1","function":{"name":"notes__add","arguments":""}}]}}]}"#,
        r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"text\":"}}]}}]}"#,
        r#"{"choices":[{"delta":{"tool_calls":[{"index":1,"id":"c2","function":{"name":"notes__list"}}]}}]}"#,
        r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"\"ä\"}"}}]}}]}"#,
        r#"{"choices":[{"delta":{},"finish_reason":"tool_calls"}]}"#,
        r#"{"choices":[],"usage":{"prompt_tokens":90,"completion_tokens":7,"prompt_tokens_details":{"cached_tokens":50}}}"#,
        "[DONE]",
    ]);
    let reply = ChatReply {
        text: "Grüße 🌍".to_owned(),
        tool_calls: vec![call("c1", "notes.add", r#"{"text":"ä"}"#), call("c2", "notes.list", "{}")],
        finish: FinishReason::ToolCalls,
        usage: TokenUsage { input: 90, output: 7, cached: 50 },
    };
    check("openai", &stream, "Grüße| 🌍", reply).await;
}

#[tokio::test]
async fn anthropic_streams_text_calls_and_counts() {
    let stream = events(&[
        r#"{"type":"message_start","message":{"usage":{"input_tokens":40,"cache_read_input_tokens":50,"output_tokens":1}}}"#,
        r#"{"type":"ping"}"#,
        r#"{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":""}}"#,
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"hm"}}"#,
        r#"{"type":"content_block_start","index":1,"content_block":{"type":"text","text":""}}"#,
        r#"{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"Grüße"}}"#,
        r#"{"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"t1","name":"notes__add","input":{}}}"#,
        r#"{"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"{\"text\":"}}"#,
        r#"{"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"\"ä\"}"}}"#,
        r#"{"type":"content_block_stop","index":2}"#,
        r#"{"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":7}}"#,
        r#"{"type":"message_stop"}"#,
    ]);
    let reply = ChatReply {
        text: "Grüße".to_owned(),
        tool_calls: vec![call("t1", "notes.add", r#"{"text":"ä"}"#)],
        finish: FinishReason::ToolCalls,
        usage: TokenUsage { input: 90, output: 7, cached: 50 },
    };
    check("anthropic", &stream, "Grüße", reply).await;
}

#[tokio::test]
async fn google_streams_text_calls_and_counts() {
    let stream = events(&[
        r#"{"candidates":[{"content":{"parts":[{"text":"hm","thought":true},{"text":"Grüße"}]}}]}"#,
        r#"{"candidates":[{"content":{"parts":[{"functionCall":{"name":"notes__add","args":{"text":"ä"}}},{"functionCall":{"name":"notes__list"}}]}}]}"#,
        r#"{"candidates":[{"content":{"parts":[]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":90,"candidatesTokenCount":5,"thoughtsTokenCount":2,"cachedContentTokenCount":50}}"#,
    ]);
    let reply = ChatReply {
        text: "Grüße".to_owned(),
        tool_calls: vec![call("call", "notes.add", r#"{"text":"ä"}"#), call("call_2", "notes.list", "{}")],
        finish: FinishReason::ToolCalls,
        usage: TokenUsage { input: 90, output: 7, cached: 50 },
    };
    check("google", &stream, "Grüße", reply).await;
}

#[tokio::test]
async fn a_plain_json_answer_is_accepted_on_every_wire() {
    for (kind, body) in [
        (
            "openai",
            r#"{"choices":[{"message":{"content":"plain","tool_calls":null},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":2}}"#,
        ),
        (
            "openai",
            r#"{"choices":[{"message":{"content":[{"type":"text","text":"plain"}]},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":2}}"#,
        ),
        (
            "anthropic",
            r#"{"content":[{"type":"text","text":"plain"}],"stop_reason":"end_turn","usage":{"input_tokens":1,"output_tokens":2}}"#,
        ),
        (
            "google",
            r#"{"candidates":[{"content":{"parts":[{"text":"plain"}]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":1,"candidatesTokenCount":2}}"#,
        ),
        (
            "google",
            r#"[{"candidates":[{"content":{"parts":[{"text":"pl"}]}}]},{"candidates":[{"content":{"parts":[{"text":"ain"}]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":1,"candidatesTokenCount":2}}]"#,
        ),
    ] {
        let response = response("200 OK", "application/json", "", body);
        let (answered, _) = answer_of(kind, vec![Act::Send(response.into_bytes())]).await;
        assert_eq!(text(&answered), "plain", "{kind}");
        assert_eq!(answered.calls[0].usage, TokenUsage { input: 1, output: 2, cached: 0 }, "{kind}");
    }
}

#[tokio::test]
async fn calls_without_numbers_or_with_the_same_number_are_kept_apart() {
    for stream in [
        events(&[
            r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"x__one","arguments":"{}"}}]}}]}"#,
            r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"b","function":{"name":"x__two","arguments":{"n":2}}}]}}]}"#,
            r#"{"choices":[{"delta":{},"finish_reason":"stop"}]}"#,
        ]),
        events(&[
            r#"{"choices":[{"delta":{"tool_calls":[{"id":"a","function":{"name":"x__one","arguments":"{}"}},{"id":"b","function":{"name":"x__two","arguments":"{\"n\":"}}]}}]}"#,
            r#"{"choices":[{"delta":{"tool_calls":[{"function":{"arguments":"2}"}}]},"finish_reason":"tool_calls"}]}"#,
        ]),
    ] {
        let (answered, _) = answer_of("openai", vec![Act::Send(stream.into_bytes())]).await;
        let reply = answered.outcome.unwrap();
        assert_eq!(reply.tool_calls, [call("a", "x.one", "{}"), call("b", "x.two", r#"{"n":2}"#)]);
        assert_eq!(reply.finish, FinishReason::ToolCalls);
    }
}

#[tokio::test]
async fn what_a_call_cost_is_recorded() {
    let stream = events(&[
        r#"{"choices":[{"delta":{"content":"hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1000,"completion_tokens":100}}"#,
    ]);
    let (answered, _) = answer_of("openai", vec![Act::Send(stream.into_bytes())]).await;
    let call = answered.answering_call().unwrap();
    // gpt-4o: 2.50 in, 10.00 out for a million.
    assert_eq!((call.model.as_str(), call.cost_micros), ("gpt-4o", 2_500 + 1_000));
    assert_eq!(call.started_at, crate::setup::START);
}
