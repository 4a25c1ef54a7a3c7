//! Channels: what each may do now, where an answer for another one goes, and what was held back.

use crate::runtime::Parts;
use cortex_store::{ChannelState, Forgotten, ShadowedEvent, StoreError};
use cortex_types::{
    ChannelMode, ChannelSettings, Event, NameRefusal, Speaker, TopicRef, is_local, is_machine_channel,
};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The owner's desk for channels.
#[derive(Clone)]
pub struct ChannelDesk(pub(crate) Arc<Parts>);

/// A channel that is listed in the settings or was heard of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChannelRow {
    pub name: String,
    pub mode: ChannelMode,
    /// Whether the settings name it; otherwise its mode is the default one.
    pub is_listed: bool,
    pub topic: Option<String>,
    pub state: Option<ChannelState>,
}

impl ChannelDesk {
    /// Puts settings in force at once; returns how many waiting messages may no longer leave.
    pub async fn apply(&self, mut settings: ChannelSettings) -> Result<usize, StoreError> {
        let parts = &self.0;
        let _one_at_a_time = parts.channel_change.acquire().await;
        settings.sources = parts.store.channels().sources().await?;
        let suppressed = parts.store.channels().set_modes(&settings, parts.clock.now()).await?;
        parts.channels.send_replace(Arc::new(settings));
        parts.arrived.notify_one();
        Ok(suppressed)
    }

    /// What this speaker says is on its channel from now on, where that has another name than its source.
    pub async fn learn_source(&self, speaker: &Speaker) -> Result<Result<(), NameRefusal>, StoreError> {
        learn_source(&self.0, speaker).await
    }

    /// Whether a source may be on this channel, without a claim to it.
    pub async fn check_name(&self, speaker: &Speaker) -> Result<Result<(), NameRefusal>, StoreError> {
        let (source, channel) = (speaker.source(), speaker.channel());
        if let refused @ Err(_) = self.settings().check_name(source, channel, speaker.standing()) {
            return Ok(refused);
        }
        if self.settings().channel_of(source) == channel {
            return Ok(Ok(()));
        }
        self.0.store.channels().check_name(source.to_owned(), channel.to_owned()).await
    }

    /// What comes from `source` may be another channel from now on, for a connector that was renamed.
    pub async fn forget_source(&self, source: &str) -> Result<Option<Forgotten>, StoreError> {
        let forgotten = self.0.store.channels().forget_source(source.to_owned(), self.0.clock.now()).await?;
        read_sources(&self.0).await?;
        self.0.arrived.notify_one();
        Ok(forgotten)
    }

    pub fn settings(&self) -> Arc<ChannelSettings> {
        Arc::clone(&self.0.channels.borrow())
    }

    pub async fn list(&self) -> Result<Vec<ChannelRow>, StoreError> {
        let settings = self.settings();
        let mut states: BTreeMap<String, Option<ChannelState>> =
            settings.channels.keys().map(|name| (name.clone(), None)).collect();
        for state in self.0.store.channels().states().await? {
            states.insert(state.channel.clone(), Some(state));
        }
        let row = |(name, state): (String, Option<ChannelState>)| ChannelRow {
            mode: settings.mode_of(&name),
            is_listed: settings.channels.contains_key(&name),
            topic: settings.channels.get(&name).and_then(|setting| setting.topic.clone()),
            name,
            state,
        };
        Ok(states.into_iter().map(row).collect())
    }

    /// The newest events of which something was held back, with all they led to.
    pub async fn shadow_report(&self, limit: u32) -> Result<Vec<ShadowedEvent>, StoreError> {
        self.0.store.shadow_report(limit).await
    }
}

/// The channel that a speaker names where it is not that of its source's own name. One on a channel of its own name, or on
/// one that nobody could be sent to, names none.
fn named(speaker: &Speaker) -> Option<&str> {
    speaker.own_channel().filter(|channel| !is_machine_channel(channel))
}

/// Whether a source may be on the channel that its speaker names, as far as it is known without the store (D23).
pub(crate) fn check_known(parts: &Parts, speaker: &Speaker) -> Result<(), NameRefusal> {
    let (source, settings) = (speaker.source(), parts.channels.borrow());
    match named(speaker) {
        Some(channel) => settings.check_name(source, channel, speaker.standing()),
        None => settings.check_unclaimed(source, source),
    }
}

/// The store has learned which channel a speaker is, or knew it before: everybody else knows it now.
pub(crate) async fn note_learned(parts: &Parts, speaker: &Speaker) {
    let Some(channel) = named(speaker).filter(|channel| *channel != speaker.source()) else { return };
    if parts.channels.borrow().channel_of(speaker.source()) == channel {
        return;
    }
    // What the speaker said is kept. The next event of the source tries again.
    if let Err(error) = read_sources(parts).await {
        tracing::error!(%error, source = speaker.source(), "A channel that was learned is not known yet");
    }
    // What waited for a channel that nobody knew may run now.
    parts.arrived.notify_one();
}

/// Knows of the channels of sources what the store knows. One after the other: what was learned and what was forgotten in one
/// commit would else be told in either order.
async fn read_sources(parts: &Parts) -> Result<(), StoreError> {
    let _one_at_a_time = parts.channel_change.acquire().await;
    let sources = parts.store.channels().sources().await?;
    parts.channels.send_modify(|settings| {
        let mut known = ChannelSettings::clone(settings);
        known.sources = sources;
        *settings = Arc::new(known);
    });
    Ok(())
}

/// Where the channel of a source has another name than the source, it is remembered, once. A name belongs to one source,
/// on disk and here: nothing changes for one that is refused (D23).
async fn learn_source(parts: &Parts, speaker: &Speaker) -> Result<Result<(), NameRefusal>, StoreError> {
    if let refused @ Err(_) = check_known(parts, speaker) {
        return Ok(refused);
    }
    let source = speaker.source();
    let Some(channel) =
        named(speaker).filter(|channel| *channel != parts.channels.borrow().channel_of(source))
    else {
        return Ok(Ok(()));
    };
    let learned = parts.store.channels().learn_source(source.to_owned(), channel.to_owned()).await?;
    if learned.is_ok() {
        note_learned(parts, speaker).await;
    }
    Ok(learned)
}

/// Where an answer to `event` goes that is sent to `channel`; an error is for the user (D19).
pub(crate) async fn target_topic(
    parts: &Parts,
    event: &Event,
    channel: &str,
) -> Result<Result<TopicRef, &'static str>, StoreError> {
    let settings = Arc::clone(&parts.channels.borrow());
    let is_here = channel == event.topic.source || channel == settings.channel_of(&event.topic.source);
    // A program without a key speaks to nobody else, and nobody else to it.
    if (is_local(channel) || is_local(&event.topic.source)) && !is_here {
        return Ok(Err("there is no such channel."));
    }
    let listed = settings.channels.get(channel);
    if let Some(topic_key) = listed.and_then(|setting| setting.topic.clone()) {
        return Ok(Ok(TopicRef { source: settings.source_of(channel).to_owned(), topic_key }));
    }
    if is_here {
        return Ok(Ok(event.topic.clone()));
    }
    let accounts = settings.accounts_of(&event.user_id);
    let source = settings.source_of(channel).to_owned();
    let newest = parts.store.channels().newest_topic(channel.to_owned(), source, accounts).await?;
    Ok(newest.ok_or(match listed {
        Some(_) => "I know no conversation of yours there.",
        None => "there is no such channel.",
    }))
}
