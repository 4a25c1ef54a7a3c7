//! Answering at the command line: by a button's name, or by a plain word where that decides.

use super::{Connector, Ended, News, SOURCE};
use crate::exit::Failure;
use crate::question::Press;
use cortex_api::{ApprovalQuery, ApprovalRow};
use cortex_brain::bare_decision;
use cortex_types::limits::LIST_ROWS_MAX;
use cortex_types::{ApprovalId, ApprovalStatus, EventId};
use std::time::Duration;
use tokio::time::Instant;

/// A question that is open in a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OpenQuestion {
    pub(crate) id: ApprovalId,
    /// The event that waits for its answer.
    event: EventId,
    /// What is asked, in one line.
    pub(crate) words: String,
}

impl OpenQuestion {
    fn of(row: ApprovalRow) -> Self {
        let words = row.question.lines().next().unwrap_or_default().to_owned();
        Self { id: row.approval_id, event: row.event_id, words }
    }
}

impl Connector<'_> {
    /// The questions that are open in a conversation, the oldest first.
    pub(crate) async fn open_questions(&self, topic: &str) -> Result<Vec<OpenQuestion>, Failure> {
        let mut query = ApprovalQuery { all: false, limit: Some(LIST_ROWS_MAX), before: None };
        let is_here = |row: &ApprovalRow| row.source == SOURCE && row.topic_key == topic;
        let mut open = Vec::new();
        loop {
            let page = self.client.approvals(&query).await?;
            open.extend(page.items.into_iter().filter(is_here).map(OpenQuestion::of));
            if page.next_cursor.is_none() {
                open.reverse();
                return Ok(open);
            }
            query.before = page.next_cursor;
        }
    }

    /// Decides a question by its id: the buttons' words are for who was asked, and no listing shows them.
    pub(crate) async fn press(&mut self, open: &OpenQuestion, press: Press) -> Result<(), Failure> {
        self.skip_said(&open.event).await?;
        match press {
            Press::Approve => self.client.approve(&open.id).await?,
            Press::Deny => self.client.deny(&open.id).await?,
        };
        Ok(())
    }

    /// Shows everything up to the end of the event that waited for an answer.
    pub(crate) async fn see_through(
        &mut self,
        open: &OpenQuestion,
        patience: Duration,
        show: &mut dyn FnMut(News<'_>) -> Result<(), Failure>,
    ) -> Result<Ended, Failure> {
        self.wait(&open.event, patience, show).await
    }

    /// Says something and waits for what comes of it. A plain word that decided a question is answered by what the question
    /// was about.
    pub(crate) async fn exchange(
        &mut self,
        text: &str,
        topic: &str,
        patience: Duration,
        show: &mut dyn FnMut(News<'_>) -> Result<(), Failure>,
    ) -> Result<(EventId, Ended), Failure> {
        let until = Instant::now() + patience;
        let asked = match bare_decision(text) {
            Some(_) => self.open_questions(topic).await?,
            None => Vec::new(),
        };
        if let [only] = asked.as_slice() {
            self.skip_said(&only.event).await?;
        }
        let event = self.say(text, topic).await?;
        // What the decision leads to belongs to the question, and is the answer to this word all the same.
        let is_answer = !asked.is_empty();
        let mut show_here = |news: News<'_>| match news {
            News::Other(arrival) if is_answer && arrival.topic_key == topic => show(News::Reply(arrival)),
            News::Preview(_)
            | News::PreviewVoid
            | News::Waiting(_)
            | News::Reply(_)
            | News::Other(_)
            | News::Elsewhere(_)
            | News::Held { .. } => show(news),
        };
        let ended = self.wait(&event, patience, &mut show_here).await?;
        let [asked] = asked.as_slice() else { return Ok((event, ended)) };
        let is_decided = ended == Ended::Silent
            && self.client.approval(&asked.id).await?.status != ApprovalStatus::Pending;
        if !is_decided {
            return Ok((event, ended));
        }
        let left = until.saturating_duration_since(Instant::now());
        let ended = self.wait(&asked.event, left, &mut show_here).await?;
        Ok((event, ended))
    }
}
