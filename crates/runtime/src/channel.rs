//! Channels: what each may do now, where an answer for another one goes, and what was held back.

use crate::runtime::Parts;
use cortex_store::{ChannelState, ShadowedEvent, StoreError};
use cortex_types::{ChannelMode, ChannelSettings, Event, TopicRef, is_local};
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
        settings.sources = parts.store.channels().sources().await?;
        let suppressed = parts.store.channels().set_modes(&settings, parts.clock.now()).await?;
        parts.channels.send_replace(Arc::new(settings));
        parts.arrived.notify_one();
        Ok(suppressed)
    }

    /// What comes from `source` is on `channel` from now on. False when the source is another channel already, or the
    /// channel another source's: then nothing changes (D23).
    pub async fn learn_source(&self, source: &str, channel: &str) -> Result<bool, StoreError> {
        let settings = self.settings();
        let is_theirs = settings.sources.get(source).is_some_and(|known| known != channel)
            || settings.sources.iter().any(|(other, known)| known == channel && other != source);
        if is_theirs {
            return Ok(false);
        }
        learn_source(&self.0, source, channel).await.map(|()| true)
    }

    /// What comes from `source` may be another channel from now on, for a connector that was renamed; gives the channel
    /// that it was.
    pub async fn forget_source(&self, source: &str) -> Result<Option<String>, StoreError> {
        let channel = self.0.store.channels().forget_source(source.to_owned()).await?;
        self.0.channels.send_modify(|settings| {
            let mut known = ChannelSettings::clone(settings);
            known.sources.remove(source);
            *settings = Arc::new(known);
        });
        self.0.arrived.notify_one();
        Ok(channel)
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

/// The channel of a source has another name than the source: remembers it, once.
pub(crate) async fn learn_source(parts: &Parts, source: &str, channel: &str) -> Result<(), StoreError> {
    if parts.channels.borrow().channel_of(source) == channel {
        return Ok(());
    }
    parts.store.channels().learn_source(source.to_owned(), channel.to_owned()).await?;
    parts.channels.send_modify(|settings| {
        let mut learned = ChannelSettings::clone(settings);
        learned.sources.insert(source.to_owned(), channel.to_owned());
        *settings = Arc::new(learned);
    });
    Ok(())
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
    let newest = parts.store.channels().newest_topic(channel.to_owned(), accounts).await?;
    Ok(newest.ok_or(match listed {
        Some(_) => "I know no conversation of yours there.",
        None => "there is no such channel.",
    }))
}
