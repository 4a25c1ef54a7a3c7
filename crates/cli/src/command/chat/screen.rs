//! What a chat shows: the preview where a person watches, and the delivered text always.

use crate::connector::{Arrival, News, held_line, waiting_line};
use crate::context::Context;
use crate::escape::{for_terminal, json_for_terminal};
use crate::exit::Failure;
use crate::terminal::talk;

pub(super) struct Screen<'a> {
    context: &'a Context,
    topic: &'a str,
    preview: String,
}

impl<'a> Screen<'a> {
    pub(super) fn new(context: &'a Context, topic: &'a str) -> Self {
        Self { context, topic, preview: String::new() }
    }

    pub(super) fn show(&mut self, news: &News<'_>) -> Result<(), Failure> {
        let terminal = &self.context.terminal;
        match news {
            News::Preview(text) if terminal.stdout_is_terminal && !terminal.json => {
                terminal.print_piece(text)?;
                self.preview.push_str(text);
            }
            News::Preview(_) => {}
            // Where the answer is seen to grow, nobody has to be told.
            News::Waiting(_) if !self.preview.is_empty() => {}
            News::Waiting(why) => talk(&waiting_line(why)),
            News::PreviewVoid if self.preview.is_empty() => {}
            News::PreviewVoid => {
                terminal.print_piece("\n(once more)\n")?;
                self.preview.clear();
            }
            // The preview was the whole reply: it stands there already.
            News::Reply(arrival)
                if !self.preview.is_empty() && self.preview.trim() == arrival.text.trim() =>
            {
                terminal.print_piece("\n")?;
                self.preview.clear();
            }
            News::Elsewhere(sent) => {
                self.end_preview()?;
                talk(&sent.line());
            }
            News::Held { reason } => {
                self.end_preview()?;
                talk(&held_line(reason));
            }
            News::Reply(arrival) | News::Other(arrival) => {
                self.end_preview()?;
                if let Some(place) = self.elsewhere(arrival) {
                    talk(&place);
                }
                terminal.print(&self.text(arrival)?)?;
                if let Some(hint) = self.hint(arrival) {
                    talk(&hint);
                }
            }
        }
        Ok(())
    }

    fn end_preview(&mut self) -> Result<(), Failure> {
        if !self.preview.is_empty() {
            self.context.terminal.print_piece("\n")?;
            self.preview.clear();
        }
        Ok(())
    }

    /// A message in one piece, for a place that takes only whole texts.
    pub(super) fn whole(&self, arrival: &Arrival) -> Result<String, Failure> {
        let text = self.text(arrival)?;
        let parts = [self.elsewhere(arrival), Some(text), self.hint(arrival)];
        let whole: String = parts.into_iter().flatten().map(|part| part + "\n").collect();
        Ok(for_terminal(&whole).into_owned())
    }

    fn text(&self, arrival: &Arrival) -> Result<String, Failure> {
        if self.context.terminal.json {
            let text = serde_json::to_string(arrival).map_err(|error| Failure::Plain(error.to_string()))?;
            return Ok(json_for_terminal(&text).into_owned());
        }
        Ok(arrival.shown())
    }

    /// Where it belongs, when that is another conversation.
    fn elsewhere(&self, arrival: &Arrival) -> Option<String> {
        let is_elsewhere = arrival.topic_key != self.topic && !self.context.terminal.json;
        is_elsewhere.then(|| format!("(in {})", arrival.topic_key))
    }

    /// How to answer what it asks.
    fn hint(&self, arrival: &Arrival) -> Option<String> {
        let question = arrival.question().filter(|_| !self.context.terminal.json)?;
        Some(if arrival.topic_key == self.topic {
            "(/approve or /deny)".to_owned()
        } else {
            self.context.how_to_answer(&question.approval_id)
        })
    }
}
