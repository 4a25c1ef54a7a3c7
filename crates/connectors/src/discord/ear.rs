//! The listening end: a session that is taken up where it was, and what was said meanwhile when it cannot be.

use super::event::{happening, said};
use super::gateway::{Dispatch, Ended, Line, Resume};
use super::rest::Rest;
use super::wire::{DiscordMessage, DiscordUser, Ready};
use crate::kit::{Ear, Happening, Inbound, PlatformError};
use cortex_types::JsonText;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Channels that are looked through after a session was lost: those where somebody spoke last.
const CHANNELS_MAX: usize = 50;
/// Pages of a hundred messages, for each of them.
const PAGES_MAX: usize = 5;
const PAGE: usize = 100;

/// It holds the line, and knows where the session stands.
#[derive(Debug)]
pub struct DiscordEar {
    rest: Rest,
    me: Option<String>,
    line: Option<Line>,
    /// What the last batch leaves as the cursor when it is durable.
    given: Option<String>,
    /// The session is gone, whatever the cursor says.
    is_lost: bool,
    /// A new session, whose beginning is stored once what was missed before it is heard.
    begun: Option<Standing>,
}

/// Where a session stands. This is the cursor.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Standing {
    session: String,
    url: String,
    seq: u64,
    /// The last message of each channel.
    #[serde(default)]
    channels: BTreeMap<String, LastHeard>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct LastHeard {
    message: String,
    is_group: bool,
}

impl Ear for DiscordEar {
    async fn next(&mut self, cursor: Option<&str>) -> Result<Vec<Inbound>, PlatformError> {
        // What could not be noted is asked for again, from where the notes end.
        if self.given.is_some() && self.given.as_deref() != cursor {
            self.line = None;
        }
        self.given = None;
        let standing = cursor.and_then(|cursor| serde_json::from_str::<Standing>(cursor).ok());
        let mut standing = standing.unwrap_or_default();
        let me = self.who_am_i().await?;
        if self.line.is_none() {
            let resume = (!standing.session.is_empty() && !self.is_lost).then(|| standing.resume());
            self.line = Some(Line::open(&self.rest, resume.as_ref()).await?);
            // Back at once, so that whoever waits to send knows that Discord is there.
            return Ok(Vec::new());
        }
        if let Some(begun) = self.begun.clone() {
            return self.catch_up(begun, standing, &me).await;
        }
        let Some(line) = &mut self.line else { return Ok(Vec::new()) };
        line.confirm(standing.seq);
        match line.next().await {
            Ok(dispatch) => Ok(self.heard(dispatch, &mut standing, &me)),
            Err(ended) => self.ended(ended),
        }
    }
}

impl DiscordEar {
    pub(super) fn new(rest: Rest) -> Self {
        Self { rest, me: None, line: None, given: None, is_lost: false, begun: None }
    }

    async fn who_am_i(&mut self) -> Result<String, PlatformError> {
        if let Some(me) = &self.me {
            return Ok(me.clone());
        }
        let user = self.rest.get::<DiscordUser>("/users/@me").await;
        let user = user.map_err(|error| error.blaming("connectors.discord.token and apiUrl"))?;
        Ok(self.me.insert(user.id).clone())
    }

    fn ended(&mut self, ended: Ended) -> Result<Vec<Inbound>, PlatformError> {
        self.line = None;
        self.begun = None;
        match ended {
            Ended::Reconnect => Ok(Vec::new()),
            Ended::SessionLost => {
                self.is_lost = true;
                Err(PlatformError::Transient("the session is gone; a new one begins".to_owned()))
            }
            Ended::Broken(error) => Err(error),
        }
    }

    fn heard(&mut self, dispatch: Dispatch, standing: &mut Standing, me: &str) -> Vec<Inbound> {
        if dispatch.kind == "READY" {
            match dispatch.data.read::<Ready>() {
                Ok(ready) => {
                    self.is_lost = false;
                    self.begun = Some(Standing {
                        session: ready.session_id,
                        url: ready.resume_gateway_url,
                        seq: dispatch.seq,
                        channels: BTreeMap::new(),
                    });
                }
                Err(error) => tracing::warn!(%error, "the gateway begins oddly"),
            }
            return Vec::new();
        }
        let what = happening(&dispatch.kind, &dispatch.data, me);
        // What is not for us moves nothing: it may come again, and is passed over again.
        if matches!(what, Happening::Nothing) {
            return Vec::new();
        }
        standing.seq = standing.seq.max(dispatch.seq);
        standing.note(&what);
        self.given = serde_json::to_string(&standing).ok();
        vec![Inbound { cursor: self.given.clone(), what }]
    }

    /// What was said in the known channels since the old session ended, and then the new one's beginning.
    async fn catch_up(
        &mut self,
        begun: Standing,
        mut standing: Standing,
        me: &str,
    ) -> Result<Vec<Inbound>, PlatformError> {
        let mut missed = Vec::new();
        for (channel, last) in &standing.channels {
            missed.extend(self.missed_in(channel, last).await?);
        }
        missed.sort_by_key(|(message, _)| message.id.parse::<u64>().unwrap_or(0));
        let mut batch = Vec::new();
        for (message, is_group) in missed {
            let what = said(message, is_group, me);
            standing.note(&what);
            batch.push(Inbound { cursor: None, what });
        }
        standing = Standing { channels: standing.channels, ..begun };
        self.begun = None;
        self.given = serde_json::to_string(&standing).ok();
        batch.push(Inbound { cursor: self.given.clone(), what: Happening::Nothing });
        Ok(batch)
    }

    async fn missed_in(
        &self,
        channel: &str,
        last: &LastHeard,
    ) -> Result<Vec<(DiscordMessage, bool)>, PlatformError> {
        let mut after = last.message.clone();
        let mut missed = Vec::new();
        for _ in 0..PAGES_MAX {
            let path = format!("/channels/{channel}/messages?limit={PAGE}&after={after}");
            let page = match self.rest.get::<Vec<JsonText>>(&path).await {
                Ok(page) => page,
                Err(PlatformError::Permanent(reason)) => {
                    tracing::warn!(channel, reason, "what was said while we were away is not shown to us");
                    break;
                }
                Err(error) => return Err(error),
            };
            let is_last = page.len() < PAGE;
            let mut messages: Vec<DiscordMessage> = page.iter().filter_map(|raw| raw.read().ok()).collect();
            messages.sort_by_key(|message| message.id.parse::<u64>().unwrap_or(0));
            if let Some(newest) = messages.last() {
                after.clone_from(&newest.id);
            }
            missed.extend(messages.into_iter().map(|message| (message, last.is_group)));
            if is_last {
                break;
            }
        }
        Ok(missed)
    }
}

impl Standing {
    fn resume(&self) -> Resume {
        Resume { session: self.session.clone(), url: self.url.clone(), seq: self.seq }
    }

    fn note(&mut self, what: &Happening) {
        let Happening::Said(said) = what else { return };
        let Some(message) = said.message.clone().filter(|_| !said.is_edit) else { return };
        let last = LastHeard { message, is_group: said.place.is_group };
        self.channels.insert(said.place.chat.clone(), last);
        while self.channels.len() > CHANNELS_MAX {
            let age = |last: &LastHeard| last.message.parse::<u64>().unwrap_or(0);
            let quietest = self.channels.iter().min_by_key(|(_, last)| age(last)).map(|(id, _)| id.clone());
            quietest.and_then(|id| self.channels.remove(&id));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kit::{ChatPlace, Said};
    use cortex_types::Millis;

    fn spoken(channel: u64, message: u64) -> Happening {
        Happening::Said(Box::new(Said {
            external_id: message.to_string(),
            place: ChatPlace { chat: channel.to_string(), thread: None, is_group: true },
            user: "42".to_owned(),
            user_name: None,
            text: "x".to_owned(),
            occurred_at: Millis(0),
            is_addressed: true,
            is_edit: false,
            quoted: None,
            files: Vec::new(),
            message: Some(message.to_string()),
        }))
    }

    #[test]
    fn the_channels_that_are_remembered_are_those_where_somebody_spoke_last() {
        let mut standing = Standing::default();
        standing.note(&spoken(7, 1_000));
        for number in 0..200 {
            standing.note(&spoken(100 + number, number));
        }
        assert_eq!(standing.channels.len(), CHANNELS_MAX);
        assert!(standing.channels.contains_key("7") && standing.channels.contains_key("299"));
        assert!(!standing.channels.contains_key("100"));
    }
}
