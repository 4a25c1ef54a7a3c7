//! What becomes of pieces, well-behaved and not.

use super::{Collector, Flow};
use crate::error::CallError;
use crate::model::Piece;
use cortex_types::limits::{REPLY_BYTES_MAX, TOOL_CALLS_MAX};
use cortex_types::{ChatMessage, ChatReply, ChatRequest, FinishReason, TokenUsage, ToolCall};

fn text(text: &str) -> Piece {
    Piece::Text(text.to_owned())
}

fn call(slot: usize, id: &str, arguments_json: &str) -> [Piece; 2] {
    [
        Piece::ToolStart { slot, id: id.to_owned(), name: "notes__add".to_owned() },
        Piece::ToolArguments { slot, json: arguments_json.to_owned() },
    ]
}

fn collect_for(
    request: &ChatRequest,
    pieces: impl IntoIterator<Item = Piece>,
) -> Result<ChatReply, CallError> {
    let mut collector = Collector::new(request, &|_| {});
    for piece in pieces {
        if collector.take(piece)? != Flow::More {
            break;
        }
    }
    collector.into_reply()
}

fn collect(pieces: impl IntoIterator<Item = Piece>) -> Result<ChatReply, CallError> {
    collect_for(&ChatRequest::default(), pieces)
}

fn ids(reply: &ChatReply) -> Vec<&str> {
    reply.tool_calls.iter().map(|call| call.id.as_str()).collect()
}

#[test]
fn a_reply_needs_an_end() {
    assert!(matches!(collect([text("half")]), Err(CallError::Cut(_))));
    assert_eq!(collect([text("whole"), Piece::Done]).unwrap().text, "whole");
    assert_eq!(
        collect([text("whole"), Piece::Finish(FinishReason::Stop)]).unwrap().finish,
        FinishReason::Stop
    );
}

#[test]
fn an_empty_reply_is_an_error_and_a_refused_one_another() {
    let stop = Piece::Finish(FinishReason::Stop);
    assert_eq!(collect([text(" \n"), stop]), Err(CallError::Empty));
    assert_eq!(collect([Piece::Finish(FinishReason::Filtered)]), Err(CallError::Filtered));
}

#[test]
fn half_a_tool_call_is_never_returned() {
    let partial = || call(0, "a", "{\"text\":\"mi").to_vec();
    let bare = partial().into_iter().chain([Piece::Done]);
    assert!(matches!(collect(bare), Err(CallError::Cut(_))));

    let length = Piece::Finish(FinishReason::Length);
    let reply = collect(call(1, "b", "{}").into_iter().chain(partial()).chain([length.clone()])).unwrap();
    assert_eq!(ids(&reply), ["b"]);
    assert_eq!(collect(partial().into_iter().chain([length])), Err(CallError::Empty));

    let malformed = partial().into_iter().chain([Piece::Finish(FinishReason::ToolCalls)]);
    let reply = collect(malformed).unwrap();
    assert_eq!(reply.tool_calls[0].arguments_json, "{\"text\":\"mi", "the model ended it so: it is told so");
}

#[test]
fn call_ids_are_one_of_a_kind_in_the_whole_history() {
    let earlier = ToolCall { id: "a".to_owned(), name: "x.y".to_owned(), arguments_json: "{}".to_owned() };
    let request = ChatRequest {
        messages: vec![ChatMessage::Assistant { text: String::new(), tool_calls: vec![earlier] }],
        ..ChatRequest::default()
    };
    let long = "l".repeat(60);
    let slots = ["a", "a", "b", "", "", "ü.1", &long, &long];
    let calls = slots.iter().enumerate().flat_map(|(slot, id)| call(slot, id, ""));
    let reply = collect_for(&request, calls.chain([Piece::Finish(FinishReason::Stop)])).unwrap();
    let cut = "l".repeat(40);
    let cut_again = format!("{}_2", "l".repeat(38));
    assert_eq!(ids(&reply), ["a_2", "a_3", "b", "call", "call_2", "__1", &cut, &cut_again]);
    assert_eq!(reply.finish, FinishReason::ToolCalls);
    assert_eq!(reply.tool_calls[0].name, "notes.add");
    assert_eq!(reply.tool_calls[0].arguments_json, "{}");
}

#[test]
fn an_answer_that_is_too_long_is_cut_with_a_mark() {
    let reply = collect(std::iter::repeat_with(|| text(&"ä".repeat(1_000)))).unwrap();
    assert!(reply.text.ends_with("ä\n\n[The answer was too long and was cut here.]"));
    assert!(reply.text.len() <= REPLY_BYTES_MAX);
    assert_eq!(reply.finish, FinishReason::Length);
}

#[test]
fn too_many_tool_calls_are_left_out_and_endless_ones_fail() {
    let stop = Piece::Finish(FinishReason::ToolCalls);
    let reply = collect((0..200).flat_map(|slot| call(slot, "", "{}")).chain([stop])).unwrap();
    assert_eq!(reply.tool_calls.len(), TOOL_CALLS_MAX);
    assert!(reply.text.contains("first 32 of 200"), "{}", reply.text);
    assert!(matches!(collect((0..).flat_map(|slot| call(slot, "", "{}"))), Err(CallError::Malformed(_))));
    let endless_arguments = std::iter::repeat_with(|| call(0, "", &"x".repeat(1_000))).flatten();
    assert!(matches!(collect(endless_arguments), Err(CallError::Malformed(_))));
}

#[test]
fn counts_are_the_providers_and_estimated_where_it_gives_none() {
    let request = ChatRequest { system: "x".repeat(400), ..ChatRequest::default() };
    let usage = |input, output| Piece::Usage(TokenUsage { input, output, cached: 0 });
    let counted = collect_for(&request, [usage(7, 1), text("hello"), usage(0, 3), Piece::Done]).unwrap();
    assert_eq!(counted.usage, TokenUsage { input: 7, output: 3, cached: 0 });
    let estimated = collect_for(&request, [text("hello"), Piece::Done]).unwrap();
    assert_eq!(estimated.usage, TokenUsage { input: 100, output: 2, cached: 0 });
}
