//! The session as one turn sees it: this topic's history and what goes on elsewhere, read in one go.

use crate::flow::channel::{self, ChannelLine};
use crate::flow::turn::{self, HistoryRow};
use crate::mind::fact::{self, HotFact, PromptScopes};
use crate::mind::summary::{self, TurnSummary};
use crate::{Store, StoreError, flow::topic, work::op};
use cortex_types::{Accounts, Millis, Op, TopicRef};
use rusqlite::OptionalExtension;

/// What to read of the session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionQuery {
    pub topic: TopicRef,
    /// The event whose own lines are left out, by its number; 0 is none.
    pub but_event: i64,
    /// Newest lines of the topic.
    pub lines: u32,
    pub accounts: Accounts,
    /// Channels that were silent since before this are left out.
    pub background_since: Millis,
    pub background_lines: usize,
    pub facts: FactsInPrompt,
    pub ops: OpsInPrompt,
}

/// Which ops a prompt has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OpsInPrompt {
    Everybodys,
    OfUsers(Vec<String>),
    /// Those that the topic itself asked for.
    OfTopic,
}

/// Which facts a prompt has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FactsInPrompt {
    None,
    /// The best so many.
    Hot(PromptScopes, usize),
    Pinned(PromptScopes),
}

/// What a turn is made from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionView {
    /// Stands for the topic's lines before `history`.
    pub summary: Option<TurnSummary>,
    /// Oldest first.
    pub history: Vec<HistoryRow>,
    /// Newest first.
    pub background: Vec<ChannelLine>,
    /// Best first.
    pub facts: Vec<HotFact>,
    /// Work in flight, and ends that were not read.
    pub ops: Vec<Op>,
}

impl Store {
    pub async fn session(&self, query: SessionQuery) -> Result<SessionView, StoreError> {
        self.read(move |connection| {
            let topic_id = topic::find(connection, &query.topic)?;
            let summary = topic_id.map(|id| summary::current(connection, id)).transpose()?.flatten();
            let after = summary.as_ref().map_or(0, |summary| summary.last_turn);
            let history = match topic_id {
                Some(id) => {
                    turn::newest_after(connection, &query.topic, id, after, query.but_event, query.lines)?
                }
                None => Vec::new(),
            };
            let background = channel::lines(
                connection,
                &query.accounts,
                topic_id,
                query.background_since,
                query.background_lines,
            )?;
            let facts = match &query.facts {
                FactsInPrompt::None => Vec::new(),
                FactsInPrompt::Hot(scopes, limit) => fact::hot(connection, scopes, *limit)?,
                FactsInPrompt::Pinned(scopes) => fact::pinned(connection, scopes)?,
            };
            let ops = match &query.ops {
                OpsInPrompt::Everybodys => op::shown(connection, None)?,
                OpsInPrompt::OfUsers(users) => op::shown(connection, Some(users))?,
                OpsInPrompt::OfTopic => op::shown_in(connection, &query.topic)?,
            };
            Ok(SessionView { summary, history, background, facts, ops })
        })
        .await
    }

    /// Who spoke last in a topic.
    pub async fn last_user(&self, topic: TopicRef) -> Result<Option<String>, StoreError> {
        self.read(move |connection| {
            let mut statement = connection.prepare_cached(
                "SELECT inbox_messages.user_id FROM turns JOIN topics ON topics.id = turns.topic_id
                 JOIN inbox_messages ON inbox_messages.seq = turns.event_seq
                 WHERE topics.source = ?1 AND topics.topic_key = ?2 ORDER BY turns.id DESC LIMIT 1",
            )?;
            Ok(statement.query_row([&topic.source, &topic.topic_key], |row| row.get(0)).optional()?)
        })
        .await
    }

    /// The topics that have this key, whichever their source.
    pub async fn topics_with_key(&self, topic_key: String) -> Result<Vec<TopicRef>, StoreError> {
        self.read(move |connection| {
            let mut statement = connection.prepare_cached(
                "SELECT source, topic_key FROM topics WHERE topic_key = ?1 ORDER BY source LIMIT 20",
            )?;
            let rows = statement.query_map([&topic_key], |row| {
                Ok(TopicRef { source: row.get(0)?, topic_key: row.get(1)? })
            })?;
            Ok(rows.collect::<Result<_, _>>()?)
        })
        .await
    }
}
