//! The listening end: `/sync` from where we were, what lies in a gap before it, and invitations.

use super::event::{happening, wants};
use super::homeserver::{Homeserver, Me};
use super::wire::{InvitedRoom, JoinedRoom, MessagesAnswer, RoomEvent, StrippedEvent, SyncAnswer, Timeline};
use crate::kit::{Ear, Happening, Inbound, PlatformError, encoded, query_of};
use cortex_types::JsonText;
use serde_json::json;
use std::collections::HashMap;
use std::time::Duration;

const TIMELINE_MAX: usize = 50;
/// The connection outlives the poll that it carries.
const BEYOND_POLL: Duration = Duration::from_secs(30);
/// What is fetched of a gap: so many pages of a hundred events.
const PAGES_MAX: usize = 20;

/// It polls, and knows how many people are in a room.
#[derive(Debug)]
pub struct MatrixEar {
    server: Homeserver,
    poll: Duration,
    members: HashMap<String, usize>,
    /// The last poll went well, so the next one may wait.
    is_steady: bool,
}

impl Ear for MatrixEar {
    async fn next(&mut self, cursor: Option<&str>) -> Result<Vec<Inbound>, PlatformError> {
        let server = self.server.clone();
        let me = server.me().await?;
        // After trouble the first poll is answered at once, so that whoever waits to send knows that the server is there.
        let wait = if std::mem::take(&mut self.is_steady) { self.poll } else { Duration::ZERO };
        let answer = self.sync(cursor, wait).await?;
        let mut batch: Vec<Happening> = Vec::new();
        for (room, invited) in answer.rooms.invite {
            batch.extend(invitation(&room, &invited, me));
        }
        for (room, joined) in answer.rooms.join {
            if let Some(count) = joined.summary.joined {
                self.members.insert(room.clone(), count);
            }
            // What was said before the first sync is history; nobody waits for an answer to it.
            if let Some(since) = cursor {
                batch.extend(self.hear_room(&room, joined, since, me).await?);
            }
        }
        let mut inbound: Vec<Inbound> =
            batch.into_iter().map(|what| Inbound { cursor: None, what }).collect();
        // The batch has one cursor, so it stands behind all of it.
        inbound.push(Inbound { cursor: Some(answer.next_batch), what: Happening::Nothing });
        self.is_steady = true;
        Ok(inbound)
    }
}

impl MatrixEar {
    pub(super) fn new(server: Homeserver, poll: Duration) -> Self {
        Self { server, poll, members: HashMap::new(), is_steady: false }
    }

    async fn sync(&self, since: Option<&str>, wait: Duration) -> Result<SyncAnswer, PlatformError> {
        let limit = if since.is_some() { TIMELINE_MAX } else { 0 };
        let nothing = json!({"types": []});
        let filter = json!({"presence": nothing, "account_data": nothing, "room": {
            "ephemeral": nothing, "account_data": nothing,
            "state": {"types": ["m.room.member"], "lazy_load_members": true},
            "timeline": {"limit": limit}}});
        let (timeout, filter) = (wait.as_millis().to_string(), filter.to_string());
        let mut query = vec![("timeout", timeout.as_str()), ("filter", filter.as_str())];
        query.extend(since.map(|since| ("since", since)));
        let request = self.server.get(&format!("/v3/sync?{}", query_of(&query))).timeout(wait + BEYOND_POLL);
        self.server.ask(request).await
    }

    async fn hear_room(
        &mut self,
        room: &str,
        joined: JoinedRoom,
        since: &str,
        me: &Me,
    ) -> Result<Vec<Happening>, PlatformError> {
        let mut events = self.gap(room, &joined.timeline, since).await?;
        events.extend(joined.timeline.events);
        let events = since_invited(events.iter().filter_map(readable).collect(), me);
        let mut heard = Vec::new();
        for event in events {
            let other = match wants(&event, me) {
                Some(id) => self.event(room, &id).await?,
                None => None,
            };
            let is_group = self.is_group(room).await?;
            heard.push(happening(event, other.as_ref(), room, is_group, me));
        }
        Ok(heard)
    }

    /// What was said between the last sync and the beginning of this one, oldest first.
    async fn gap(
        &self,
        room: &str,
        timeline: &Timeline,
        since: &str,
    ) -> Result<Vec<JsonText>, PlatformError> {
        let mut events = Vec::new();
        let mut from = timeline.prev_batch.clone().filter(|_| timeline.limited);
        for _ in 0..PAGES_MAX {
            let Some(start) = from.take() else { break };
            let query = [("dir", "b"), ("limit", "100"), ("from", start.as_str()), ("to", since)];
            let path = format!("/v3/rooms/{}/messages?{}", encoded(room), query_of(&query));
            let page = match self.server.ask::<MessagesAnswer>(self.server.get(&path)).await {
                Ok(page) => page,
                Err(PlatformError::Permanent(reason)) => {
                    tracing::warn!(room, reason, "what was said while we were away is not shown to us");
                    break;
                }
                Err(error) => return Err(error),
            };
            from = page.end.filter(|end| end != since && !page.chunk.is_empty());
            events.extend(page.chunk);
        }
        if from.is_some() {
            tracing::warn!(
                room,
                heard = events.len(),
                "too much was said while we were away; the oldest is not heard"
            );
        }
        events.reverse();
        Ok(events)
    }

    /// Another event of the room; one that is not shown to us is none.
    async fn event(&self, room: &str, id: &str) -> Result<Option<RoomEvent>, PlatformError> {
        let path = format!("/v3/rooms/{}/event/{}", encoded(room), encoded(id));
        match self.server.ask::<JsonText>(self.server.get(&path)).await {
            Ok(raw) => Ok(readable(&raw)),
            Err(PlatformError::Permanent(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn is_group(&mut self, room: &str) -> Result<bool, PlatformError> {
        let count = match self.members.get(room) {
            Some(count) => *count,
            None => match self.server.member_count(room).await {
                Ok(count) => *self.members.entry(room.to_owned()).or_insert(count),
                // A room that we may not look into any more: what is said there must be meant for us.
                Err(PlatformError::Permanent(_)) => usize::MAX,
                Err(error) => return Err(error),
            },
        };
        Ok(count > 2)
    }
}

fn invitation(room: &str, invited: &InvitedRoom, me: &Me) -> Option<Happening> {
    let events = invited.invite_state.events.iter();
    let mut read = events.filter_map(|raw| raw.read::<StrippedEvent>().ok());
    let ours = read.find(|event| {
        event.kind == "m.room.member"
            && event.state_key == me.id
            && event.content.membership.as_deref() == Some("invite")
    });
    ours.map(|event| Happening::Invited { user: event.sender, chat: room.to_owned() })
}

/// An event that cannot be read must not hold up those behind it.
fn readable(raw: &JsonText) -> Option<RoomEvent> {
    raw.read().inspect_err(|error| tracing::warn!(%error, "an event of an unknown shape is passed over")).ok()
}

/// What was said in a room before we were asked into it was not said to us.
fn since_invited(mut events: Vec<RoomEvent>, me: &Me) -> Vec<RoomEvent> {
    let is_ours = |event: &RoomEvent, membership: &str| {
        event.kind == "m.room.member"
            && event.state_key.as_deref() == Some(&me.id)
            && event.content.membership.as_deref() == Some(membership)
    };
    let came_uninvited = |event: &RoomEvent| {
        let before = event.unsigned.prev_content.as_ref().and_then(|before| before.membership.as_deref());
        is_ours(event, "join") && !matches!(before, Some("join" | "invite"))
    };
    let start = events
        .iter()
        .position(|event| is_ours(event, "invite"))
        .or_else(|| events.iter().position(came_uninvited));
    events.split_off(start.unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_said_before_we_were_invited_is_not_heard() {
        let me = Me { id: "@cortex:x".to_owned(), name: None };
        let event = |id: &str, kind: &str, membership: Option<&str>, before: Option<&str>| -> RoomEvent {
            serde_json::from_value(json!({"event_id": id, "sender": "@ada:x", "type": kind,
                "state_key": membership.map(|_| "@cortex:x"), "content": {"membership": membership},
                "unsigned": {"prev_content": {"membership": before}}}))
            .unwrap()
        };
        let said = |id| event(id, "m.room.message", None, None);
        let own = |id, membership, before| event(id, "m.room.member", Some(membership), before);
        let kept = |events: Vec<RoomEvent>| -> Vec<String> {
            since_invited(events, &me).into_iter().map(|event| event.event_id).collect()
        };
        assert_eq!(
            kept(vec![said("1"), own("2", "invite", None), said("3"), own("4", "join", Some("invite"))]),
            ["2", "3", "4"]
        );
        assert_eq!(kept(vec![said("1"), own("2", "join", None), said("3")]), ["2", "3"]);
        assert_eq!(kept(vec![said("1"), own("2", "join", Some("join")), said("3")]), ["1", "2", "3"]);
        assert_eq!(kept(vec![said("1"), own("2", "join", Some("invite"))]), ["1", "2"]);
    }
}
