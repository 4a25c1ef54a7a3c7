//! Where an answer goes: its words once to every topic, a line about channels that cannot be reached, and what history keeps.

use crate::effect::send::SendTargets;
use crate::runtime::Parts;
use crate::{channel, mint};
use cortex_brain::{Output, Routed, Unsent, history_line, unsent_notice};
use cortex_store::StoreError;
use cortex_types::{ChannelMode, Event, Millis, NewReply, SILENCE_MARK, TopicRef};

/// An answer with its targets looked up.
pub(crate) struct RoutedAnswer {
    pub(crate) replies: Vec<NewReply>,
    /// What history keeps as the assistant's words in the topic of the event.
    pub(crate) content: String,
}

pub(crate) async fn route_answer(
    parts: &Parts,
    event: &Event,
    output: Output,
    targets: &SendTargets,
    now: Millis,
) -> Result<RoutedAnswer, StoreError> {
    let Output::Say { text, to } = output else {
        return Ok(RoutedAnswer { replies: Vec::new(), content: SILENCE_MARK.to_owned() });
    };
    let mut routed = Routed { here: to.current, ..Routed::default() };
    let mut topics = Vec::new();
    for channel in to.channels {
        if targets.withheld.contains(&channel) {
            routed.unsent.push(Unsent { channel, reason: "it was not approved." });
            continue;
        }
        let target = match targets.approved.get(&channel) {
            Some(approved) => approved_topic(parts, event, &channel, approved).await?,
            None => channel::target_topic(parts, event, &channel).await?,
        };
        match target {
            Ok(topic) if topic == event.topic => routed.here = true,
            Ok(topic) => {
                // The record of what was suppressed is kept all the same (D18).
                topics.push(topic);
                match parts.channels.borrow().mode_of(&channel) {
                    ChannelMode::Off => {
                        routed.unsent.push(Unsent { channel, reason: "that channel is off." });
                    }
                    // In shadow all goes as if it were live, and nothing leaves.
                    ChannelMode::Shadow | ChannelMode::Live => routed.sent.push(channel),
                }
            }
            Err(reason) => routed.unsent.push(Unsent { channel, reason }),
        }
    }
    let here = routed.here.then(|| reply_to(event, text.clone(), now));
    let elsewhere = topics.into_iter().map(|topic| NewReply { topic, ..reply_to(event, text.clone(), now) });
    let notice = unsent_notice(&text, &routed).map(|notice| reply_to(event, notice, now));
    let replies = here.into_iter().chain(elsewhere).chain(notice).collect();
    Ok(RoutedAnswer { replies, content: history_line(&text, &routed) })
}

/// The conversation that was approved, as long as it is there: it is never another one.
async fn approved_topic(
    parts: &Parts,
    event: &Event,
    channel: &str,
    approved: &TopicRef,
) -> Result<Result<TopicRef, &'static str>, StoreError> {
    let is_there = channel::target_topic(parts, event, channel).await?.as_ref() == Ok(approved)
        || parts.store.channels().has_topic(approved.clone()).await?;
    Ok(if is_there {
        Ok(approved.clone())
    } else {
        Err("the conversation that was approved is no longer there.")
    })
}

/// A message to the topic of an event.
pub(crate) fn reply_to(event: &Event, text: String, now: Millis) -> NewReply {
    NewReply { id: mint::outbox_id(now), topic: event.topic.clone(), text, payload_json: None }
}
