//! The offline model: no network, no chance, the same answer to the same question. It can greet, look back in
//! the history, and call a tool that is asked for by name, so that the product can be tried without a key.

use crate::error::CallError;
use crate::history::last_user_text;
use crate::model::{Model, Piece, PieceStream};
use async_trait::async_trait;
use cortex_types::{ATTACHMENTS_MARK, ChatRequest, FinishReason};
use futures::{StreamExt, stream};

mod phrases;
mod recollection;
mod rules;

pub(crate) struct Offline;

/// What the offline model does about a question.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Reaction {
    Say(String),
    Call { tool: String, arguments_json: String },
}

/// A question, prepared for the rules.
struct Question<'a> {
    /// What was said last, as it was said.
    text: &'a str,
    /// The same in lower case, without the signs at its end.
    plain: String,
    request: &'a ChatRequest,
}

#[async_trait]
impl Model for Offline {
    fn kind(&self) -> &'static str {
        "offline"
    }

    fn name(&self) -> String {
        "offline".to_owned()
    }

    async fn open(&self, request: &ChatRequest) -> Result<PieceStream, CallError> {
        let batches = match react(request) {
            Reaction::Say(text) => {
                let words = text.split_inclusive(' ').map(|word| vec![Piece::Text(word.to_owned())]);
                words.chain([vec![Piece::Finish(FinishReason::Stop), Piece::Done]]).collect::<Vec<_>>()
            }
            Reaction::Call { tool, arguments_json } => vec![vec![
                Piece::ToolStart { slot: 0, id: String::new(), name: tool },
                Piece::ToolArguments { slot: 0, json: arguments_json },
                Piece::Finish(FinishReason::ToolCalls),
                Piece::Done,
            ]],
        };
        Ok(stream::iter(batches).map(Ok).boxed())
    }
}

fn react(request: &ChatRequest) -> Reaction {
    let text = words_of(last_user_text(request));
    let plain = text.trim().trim_end_matches(['.', '!', '?', ' ']).to_lowercase();
    let question = Question { text, plain, request };
    let fallback = || Reaction::Say(rules::echo(&question));
    rules::RULES.iter().find_map(|rule| rule(&question)).unwrap_or_else(fallback)
}

/// A message without the line before it that names what came with it: the rules are for words.
fn words_of(text: &str) -> &str {
    let named =
        text.split_once('\n').filter(|(line, _)| line.starts_with(ATTACHMENTS_MARK) && line.ends_with(']'));
    named.map_or(text, |(_, words)| words)
}
