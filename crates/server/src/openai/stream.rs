//! The answer while it grows, for a wire on which nothing can be unsaid.

use super::answer::{Answer, gather, hand_over, leased, said, stopping};
use super::ask::Asked;
use super::follow::{Following, News};
use super::joined::{BETWEEN, Open, Said, joined, joined_and_left};
use super::refusal::OpenAiRefusal;
use super::written::Leased;
use crate::live::{LONG_BYTES, Reader, Room};
use crate::refusal::Refusal;
use crate::state::AppState;
use axum::response::sse::{Event as SseEvent, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use cortex_api::ErrorCode;
use cortex_types::{EventId, OutboxId};
use futures::stream;
use sha2::{Digest, Sha256};
use std::convert::Infallible;

/// Stands before words that replace what was streamed: what is above it was a draft or a remark.
const STARTS_OVER: &str = "\n\n---\n\n";

/// How a protocol writes an answer that grows.
pub(crate) trait AnswerWire: Send + 'static {
    fn begin(&mut self, event: &EventId) -> Vec<SseEvent>;
    fn text(&mut self, delta: &str) -> Vec<SseEvent>;
    /// `text` is the whole answer without its drafts.
    fn end(&mut self, text: &str, answer: &Answer) -> Vec<SseEvent>;
    /// What ends the stream, once the messages count as delivered: a client may leave at its sight.
    fn close(&mut self) -> Vec<SseEvent>;
    fn fail(&mut self, refusal: &OpenAiRefusal) -> Vec<SseEvent>;
}

/// Asks the assistant and streams the answer; a comment now and then keeps the connection alive meanwhile.
pub(crate) async fn answer_stream(
    app: &AppState,
    asked: Asked,
    mut wire: impl AnswerWire,
) -> Result<Response, OpenAiRefusal> {
    // Before the question is taken in, so that its own replies are not among them.
    let waiting = hand_over(app, asked.topic.clone(), Vec::new()).await?;
    let waiting_leases = leased(app, &waiting);
    let texts: Vec<Said> = waiting.iter().map(|handed| said(&handed.message, &asked.host)).collect();
    let following = Following::begin(app, asked).await?;
    let mut events = wire.begin(&following.question.event);
    let mut spoken = Spoken::default();
    if !texts.is_empty() {
        let (text, open) = joined_and_left(&texts);
        events.extend(wire.text(&spoken.say(&text)));
        spoken.pause(BETWEEN);
        spoken.open = open;
    }
    let telling = Telling {
        following: Some(following),
        wire,
        spoken,
        said_before: texts,
        seen: waiting.into_iter().map(|handed| handed.message.id).collect(),
        room: None,
    };
    let first = Next::Say(events, Box::new(After::Ack(waiting_leases, Box::new(After::Follow))));
    let events = stream::unfold((telling, first), |(telling, next)| telling.next(next));
    let events = futures::StreamExt::flat_map(events, stream::iter);
    let events = futures::StreamExt::map(events, Ok::<_, Infallible>);
    Ok(Sse::new(events).keep_alive(KeepAlive::default()).into_response())
}

struct Telling<W> {
    /// Until the answer is told, or the stream has ended with a reason: dropped before, its reader stopped it.
    following: Option<Following>,
    wire: W,
    spoken: Spoken,
    said_before: Vec<Said>,
    seen: Vec<OutboxId>,
    /// While the end of a long answer waits to be read.
    room: Room,
}

impl<W> Drop for Telling<W> {
    fn drop(&mut self) {
        // Without a runtime the server is gone, and the answer waits for the next request.
        if let (Some(following), Ok(runtime)) = (self.following.take(), tokio::runtime::Handle::try_current())
        {
            runtime.spawn(following.stopped());
        }
    }
}

enum Next {
    Say(Vec<SseEvent>, Box<After>),
    Then(Box<After>),
}

/// What is done once the connection asks for more.
enum After {
    /// What was said before is written.
    Ack(Leased, Box<After>),
    Follow,
    Close,
    Over,
}

impl<W: AnswerWire> Telling<W> {
    async fn next(mut self, next: Next) -> Option<(Vec<SseEvent>, (Self, Next))> {
        let mut after = match next {
            Next::Say(events, after) => return Some((events, (self, Next::Then(after)))),
            Next::Then(after) => *after,
        };
        loop {
            after = match after {
                After::Ack(leased, after) => {
                    leased.ack().await;
                    *after
                }
                After::Close => {
                    self.room = None;
                    self.following = None;
                    let events = self.wire.close();
                    return Some((events, (self, Next::Then(Box::new(After::Over)))));
                }
                After::Over => return None,
                After::Follow => {
                    let (events, after) = self.follow().await;
                    return Some((events, (self, Next::Then(Box::new(after)))));
                }
            };
        }
    }

    async fn follow(&mut self) -> (Vec<SseEvent>, After) {
        let Some(following) = &mut self.following else { return (Vec::new(), After::Over) };
        let refusal = match following.next().await {
            Ok(Some(News::Text(text))) => {
                let text = self.spoken.say(&text);
                return (self.wire.text(&text), After::Follow);
            }
            Ok(Some(News::Restarted)) => {
                self.spoken.start_over();
                return (Vec::new(), After::Follow);
            }
            Ok(Some(News::Ended(status))) => {
                let is_long = self.spoken.bytes > LONG_BYTES;
                self.room = if is_long { Reader::OpenAi.room().await } else { None };
                if is_long && self.room.is_none() {
                    Refusal::new(ErrorCode::Busy).into()
                } else {
                    match gather(&following.question, status, &self.seen).await {
                        Ok(answer) => return self.end(answer),
                        Err(refusal) => refusal,
                    }
                }
            }
            Ok(None) => stopping(),
            Err(error) => error.into(),
        };
        self.following = None;
        (self.wire.fail(&refusal), After::Over)
    }

    fn end(&mut self, answer: Answer) -> (Vec<SseEvent>, After) {
        let mut events = Vec::new();
        let rest = self.spoken.rest_of(&answer.texts);
        if !rest.is_empty() {
            events.extend(self.wire.text(&rest));
        }
        let whole = joined(self.said_before.iter().chain(&answer.texts));
        events.extend(self.wire.end(&whole, &answer));
        (events, After::Ack(answer.leased, Box::new(After::Close)))
    }
}

/// What the client has read of the answer that grows.
#[derive(Default)]
struct Spoken {
    /// Since the answer last began. Only its length and digest: many may be streamed at once, and each is long.
    bytes: usize,
    digest: Sha256,
    /// What goes before the next words.
    gap: &'static str,
    /// Those of all that was streamed, drafts too: the client has them in its answer.
    open: Open,
}

impl Spoken {
    fn say(&mut self, text: &str) -> String {
        self.bytes += text.len();
        self.digest.update(text);
        // A question may follow, and these words are out by then: what they open is closed before it.
        self.open.note_words(text);
        format!("{}{text}", std::mem::take(&mut self.gap))
    }

    /// What was said stands for itself; the answer begins after it.
    fn pause(&mut self, gap: &'static str) {
        (self.bytes, self.digest) = (0, Sha256::default());
        self.gap = gap;
    }

    fn start_over(&mut self) {
        if self.bytes > 0 {
            self.pause(STARTS_OVER);
        }
    }

    /// What is missing of `texts`: the rest of the one that was streamed, then the others.
    fn rest_of(&mut self, texts: &[Said]) -> String {
        let said = self.digest.clone().finalize();
        let begins_with_it = |said_last: &Said| {
            said_last.text.as_bytes().get(..self.bytes).is_some_and(|start| Sha256::digest(start) == said)
        };
        let streamed = (self.bytes > 0).then(|| texts.iter().position(begins_with_it)).flatten();
        let mut rest = String::new();
        match streamed {
            Some(position) => {
                let missing = texts[position].text.get(self.bytes..).unwrap_or_default();
                rest.push_str(&self.open.words(missing, texts.iter().any(|said| said.is_question)));
            }
            None => self.start_over(),
        }
        for (position, said) in texts.iter().enumerate() {
            if Some(position) != streamed {
                let nothing_before = streamed.is_none() && rest.is_empty();
                rest.push_str(if nothing_before { std::mem::take(&mut self.gap) } else { BETWEEN });
                let is_before_question = texts[position + 1..].iter().any(|later| later.is_question);
                rest.push_str(&self.open.shown(said, is_before_question));
            }
        }
        rest
    }
}

#[cfg(test)]
mod tests {
    use super::super::joined::tests::{SHOWN, code_in, pieces, question};
    use super::*;
    use proptest::prelude::*;

    /// What the client reads when these are streamed (`None` starts over) and then these are the messages.
    #[track_caller]
    fn check(streamed: &[Option<&str>], texts: &[&str], expected: &str) {
        let mut spoken = Spoken::default();
        let mut read = String::new();
        for piece in streamed {
            match piece {
                Some(text) => read.push_str(&spoken.say(text)),
                None => spoken.start_over(),
            }
        }
        let said = |text: &&str| Said { text: (*text).to_owned(), is_question: text.starts_with('?') };
        let texts: Vec<Said> = texts.iter().map(said).collect();
        read.push_str(&spoken.rest_of(&texts));
        assert_eq!(read, expected);
    }

    #[test]
    fn the_stream_ends_with_all_that_was_said() {
        check(&[Some("Hel"), Some("lo")], &["Hello"], "Hello");
        check(&[Some("Hel")], &["Hello"], "Hello");
        check(&[], &["Hello"], "Hello");
        check(&[], &["a", "b"], "a\n\nb");
        check(&[Some("Hel")], &["first", "Hello", "last"], "Hello\n\nfirst\n\nlast");
        check(&[Some("Hello")], &[], "Hello");
    }

    #[test]
    fn a_block_of_code_that_was_left_open_ends_before_a_question() {
        let ended = "````text\n````\n\n?";
        check(&[Some("a\n``"), Some("`")], &["?"], &format!("a\n```\n\n---\n\n{ended}"));
        check(&[Some("a\n```")], &["a\n```", "?", "?"], &format!("a\n```\n\n{ended}\n\n?"));
        check(&[Some("a")], &["a\n```", "?"], &format!("a\n```\n\n{ended}"));
        check(&[Some("a"), None], &["b", "?"], "a\n\n---\n\nb\n\n?");
    }

    #[test]
    fn a_tag_that_went_out_ends_before_a_question_and_the_others_are_broken() {
        let ends = "--> ?> ]]> </pre></script></style></textarea>\n\n?";
        check(&[Some("a <"), Some("!-- b")], &["a <!-- b", "?"], &format!("a <!-- b\n\n{ends}"));
        check(&[Some("a <")], &["a <!-- b", "<p>", "?", "<p>"], "a < !-- b\n\n< p>\n\n?\n\n<p>");
        check(&[Some("a <b>")], &["a <b> <i>"], "a <b> <i>");
    }

    proptest! {
        #[test]
        fn no_words_that_were_streamed_change_how_a_question_is_shown(pieces in pieces(), cut in 0..40_usize, draft in any::<bool>()) {
            let (mut spoken, mut read) = (Spoken::default(), String::new());
            let (streamed, missing) = pieces.split_at(cut.min(pieces.len()));
            for piece in streamed {
                read.push_str(&spoken.say(piece));
            }
            let text = if draft { missing.concat() } else { pieces.concat() };
            read.push_str(&spoken.rest_of(&[Said { text, is_question: false }, question(), question()]));
            let shown = code_in(&read).into_iter().filter(|block| *block == format!("{SHOWN}\n")).count();
            prop_assert_eq!(shown, 2, "{}", read);
        }
    }

    #[test]
    fn a_draft_is_set_off_from_the_answer() {
        check(&[Some("Par"), None, Some("Rome"), Some(".")], &["Rome."], "Par\n\n---\n\nRome.");
        check(&[Some("Par"), None], &["Rome."], "Par\n\n---\n\nRome.");
        check(&[Some("Par")], &["Rome."], "Par\n\n---\n\nRome.");
        check(&[None, Some("Rome.")], &["Rome."], "Rome.");
        check(&[Some("Par"), None], &[], "Par");
    }
}
