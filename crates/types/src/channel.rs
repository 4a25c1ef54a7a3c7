//! Channels: what each may do.

use crate::status::UnknownStatus;
use crate::{Speaker, Standing, is_local, is_reserved_source, names_its_source};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::convert::Infallible;
use thiserror::Error;

/// Channels of events that come from inside.
const INTERNAL_CHANNELS: [&str; 2] = ["cron", "router"];

/// What a webhook brings has the channel of this start and the hook's name (D72).
pub const HOOK_CHANNEL_START: &str = "hook:";

/// Whether no person speaks on a channel. Unlisted, it may do what the channel of its topic may (D18).
pub fn is_machine_channel(channel: &str) -> bool {
    INTERNAL_CHANNELS.contains(&channel) || channel.starts_with(HOOK_CHANNEL_START)
}

crate::status::status_type!(
    /// What a channel may do (D18).
    ChannelMode, "off, shadow, live", {
        /// Not tracked at all.
        Off = "off",
        /// Processed and recorded; nothing leaves.
        Shadow = "shadow",
        Live = "live",
    }
);

crate::status::status_type!(
    /// How much of a channel a prompt holds.
    ChannelLayer, "foreground, background, archived", {
        Foreground = "foreground",
        Background = "background",
        Archived = "archived",
    }
);

crate::status::status_type!(
    /// What the sender of an event is to the owner, unless a connector says it in its own word.
    Relationship, "owner, known, unknown, system", {
        /// No identities are set: all users are one owner (D17).
        Owner = "owner",
        /// An account that `identities` names.
        Known = "known",
        Unknown = "unknown",
        /// The event came from inside.
        System = "system",
    }
);

/// What the settings say of channels and of the people on them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChannelSettings {
    /// False: events queue up and no turn runs.
    pub enabled: bool,
    /// Of a channel that is not listed.
    pub default_mode: ChannelMode,
    pub channels: BTreeMap<String, ChannelSetting>,
    /// The channel of each source whose channel has another name; learned, not set (D18).
    pub sources: BTreeMap<String, String>,
    /// The accounts of each person; with none at all, everybody is one owner (D17).
    pub identities: BTreeMap<String, Vec<String>>,
}

/// What is set for one channel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChannelSetting {
    pub mode: ChannelMode,
    /// Where an answer goes that is sent to this channel from another one.
    pub topic: Option<String>,
}

/// Why a source may not be on the channel that its connector names (D23).
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum NameRefusal {
    #[error("the name {0} belongs to the server; choose another connectorId")]
    Reserved(String),
    #[error("the name {channel} belongs to another connector ({by}); {}", way_out(.channel, .by))]
    Taken {
        channel: String,
        /// The source that has it.
        by: String,
    },
    #[error(
        "the source {of} is the channel {channel} already; after a rename run `cortex connector unbind {of}`"
    )]
    Bound { of: String, channel: String },
    #[error(
        "the settings list the channel {channel}, and the source {of} is not named after it; \
         choose another connectorId, or use the source urn:connector:{channel}"
    )]
    Listed { of: String, channel: String },
}

/// A source that is called so keeps its name; one that was learned under it can be parted from it.
fn way_out(channel: &str, by: &str) -> String {
    if by == channel {
        return "choose another connectorId".to_owned();
    }
    format!("choose another connectorId, or free the name with `cortex connector unbind {by}`")
}

/// Whose topics belong together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Accounts {
    /// No identities are set: all users are one owner.
    Everyone,
    Only(Vec<String>),
}

impl Default for ChannelSettings {
    fn default() -> Self {
        Self {
            enabled: true,
            default_mode: ChannelMode::Live,
            channels: BTreeMap::new(),
            sources: BTreeMap::new(),
            identities: BTreeMap::new(),
        }
    }
}

/// Where modes are looked up: in the settings, or in the rows that hold them on disk. What a mode means for an event, a
/// source or a target is decided here and nowhere else (D18).
pub trait ModeTable {
    type Error;

    /// The mode of the channel with exactly this name, if it is listed.
    fn listed(&self, channel: &str) -> Result<Option<ChannelMode>, Self::Error>;

    /// The mode of all channels that are not listed.
    fn unlisted(&self) -> Result<ChannelMode, Self::Error>;

    /// The channel that a source was learned to be, if it has another name.
    fn learned(&self, source: &str) -> Result<Option<Cow<'_, str>>, Self::Error>;

    /// The mode of a channel, or of the channel that a source is.
    fn mode_of(&self, name: &str) -> Result<ChannelMode, Self::Error> {
        let listed = match self.learned(name)? {
            Some(channel) => self.listed(&channel)?,
            None => self.listed(name)?,
        };
        listed.map_or_else(|| self.unlisted(), Ok)
    }

    /// The name whose mode an event of `channel` has; `source` is where its topic is.
    fn origin_of<'a>(&self, channel: &'a str, source: &'a str) -> Result<&'a str, Self::Error> {
        let follows = is_machine_channel(channel) && self.listed(channel)?.is_none();
        Ok(if follows { source } else { channel })
    }

    /// Whether nothing of `channel` is run in a topic of `source`. What a source says itself has the source's mode, whatever
    /// channel it named when it came: the name may be forgotten since, and a topic that held two modes would lose its order.
    /// What comes from inside has a mode of its own beside it.
    fn is_off(&self, channel: &str, source: &str) -> Result<bool, Self::Error> {
        let is_own_off = is_machine_channel(channel)
            && self.mode_of(self.origin_of(channel, source)?)? == ChannelMode::Off;
        Ok(is_own_off || self.mode_of(source)? == ChannelMode::Off)
    }

    /// The same for an event that is not accepted yet: accepting it teaches the channel that it names.
    fn will_be_off(&self, channel: &str, source: &str) -> Result<bool, Self::Error> {
        let is_unknown = !is_machine_channel(channel) && self.learned(source)?.is_none();
        self.is_off(channel, if is_unknown { channel } else { source })
    }
}

impl ModeTable for ChannelSettings {
    type Error = Infallible;

    fn listed(&self, channel: &str) -> Result<Option<ChannelMode>, Infallible> {
        Ok(self.channels.get(channel).map(|setting| setting.mode))
    }

    fn unlisted(&self) -> Result<ChannelMode, Infallible> {
        Ok(self.default_mode)
    }

    fn learned(&self, source: &str) -> Result<Option<Cow<'_, str>>, Infallible> {
        Ok(self.sources.get(source).map(|channel| Cow::Borrowed(channel.as_str())))
    }
}

impl ChannelSettings {
    /// The mode of a channel, or of the channel that a source is.
    pub fn mode_of(&self, name: &str) -> ChannelMode {
        let Ok(mode) = ModeTable::mode_of(self, name);
        mode
    }

    /// The channel of a source: another one where that was learned, else of the same name.
    pub fn channel_of<'a>(&'a self, source: &'a str) -> &'a str {
        self.sources.get(source).map_or(source, String::as_str)
    }

    /// The source whose topics are on a channel.
    pub fn source_of<'a>(&'a self, channel: &'a str) -> &'a str {
        let learned = self.sources.iter().find(|(_, of_source)| *of_source == channel);
        learned.map_or(channel, |(source, _)| source)
    }

    /// Whether what comes from `source` may be on `channel`, as far as it is known here; the store has the last word
    /// (D23).
    pub fn check_name(&self, source: &str, channel: &str, standing: Standing) -> Result<(), NameRefusal> {
        if let Some(known) = self.sources.get(source) {
            let bound = || NameRefusal::Bound { of: source.to_owned(), channel: known.clone() };
            return if known == channel { Ok(()) } else { Err(bound()) };
        }
        self.check_unclaimed(source, channel)?;
        if source == channel {
            return Ok(());
        }
        if is_reserved_source(channel) {
            return Err(NameRefusal::Reserved(channel.to_owned()));
        }
        let is_named_after_it = source.strip_suffix(channel).is_some_and(|start| start.ends_with(':'));
        if self.channels.contains_key(channel) && standing != Standing::Owner && !is_named_after_it {
            return Err(NameRefusal::Listed { of: source.to_owned(), channel: channel.to_owned() });
        }
        Ok(())
    }

    /// Whether no other source was learned to be this channel.
    pub fn check_unclaimed(&self, source: &str, channel: &str) -> Result<(), NameRefusal> {
        let other = self.sources.iter().find(|(other, known)| *known == channel && *other != source);
        let taken = |by: &String| NameRefusal::Taken { channel: channel.to_owned(), by: by.clone() };
        other.map_or(Ok(()), |(by, _)| Err(taken(by)))
    }

    /// The mode of an event's channel; `source` is where its topic is.
    pub fn mode_of_event(&self, channel: &str, source: &str) -> ChannelMode {
        let Ok(origin) = self.origin_of(channel, source);
        self.mode_of(origin)
    }

    /// Whether an event of `channel` may say something to `target`, which is where its topic is (D18).
    pub fn may_say(&self, channel: &str, target: &str) -> bool {
        self.mode_of_event(channel, target) == ChannelMode::Live && self.mode_of(target) == ChannelMode::Live
    }

    /// Whether nothing of `channel` is run in a topic of `source`: one of them is off (D18).
    pub fn is_off(&self, channel: &str, source: &str) -> bool {
        let Ok(is_off) = ModeTable::is_off(self, channel, source);
        is_off
    }

    /// The same for an event that is not accepted yet.
    pub fn will_be_off(&self, channel: &str, source: &str) -> bool {
        let Ok(is_off) = ModeTable::will_be_off(self, channel, source);
        is_off
    }

    /// The person behind a user id that a speaker claims. An account in `identities` is a user id with its source
    /// (`slack/U1`), or a user id alone, which counts where it names its source itself or where the owner's own key
    /// spoke. From everybody else it is the id of another person, who is named with the source (D17).
    pub fn person_of(&self, speaker: &Speaker, user_id: &str) -> String {
        let user = speaker.person(user_id);
        let is_vouched_for = match speaker.standing() {
            Standing::Owner => true,
            Standing::Key | Standing::Trusted => names_its_source(speaker.source(), &user),
            Standing::Local | Standing::Hook | Standing::Inside => return user,
        };
        let with_source = format!("{}/{user}", speaker.source());
        let is_account = |name: &str| self.identities.values().flatten().any(|account| account == name);
        let is_anothers = !is_vouched_for && is_account(&user);
        if is_anothers || is_account(&with_source) { with_source } else { user }
    }

    pub fn relationship_of(&self, user_id: &str) -> Relationship {
        if is_local(user_id) {
            return Relationship::Unknown;
        }
        if self.identities.is_empty() {
            return Relationship::Owner;
        }
        let is_named = self.identities.values().flatten().any(|account| account == user_id);
        if is_named { Relationship::Known } else { Relationship::Unknown }
    }

    /// The accounts of the person that this user is.
    pub fn accounts_of(&self, user_id: &str) -> Accounts {
        // Who is behind a session without a key is not known, so it is joined with nobody (D17).
        if is_local(user_id) {
            return Accounts::Only(vec![user_id.to_owned()]);
        }
        if self.identities.is_empty() {
            return Accounts::Everyone;
        }
        let person = self.identities.values().find(|accounts| accounts.iter().any(|own| own == user_id));
        let Some(accounts) = person else { return Accounts::Only(vec![user_id.to_owned()]) };
        Accounts::Only(accounts.iter().filter(|own| !is_local(own)).cloned().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(channels: &[(&str, ChannelMode)]) -> ChannelSettings {
        let setting = |mode| ChannelSetting { mode, topic: None };
        let channels = channels.iter().map(|(name, mode)| ((*name).to_owned(), setting(*mode))).collect();
        ChannelSettings { default_mode: ChannelMode::Off, channels, ..ChannelSettings::default() }
    }

    #[test]
    fn an_unlisted_internal_channel_may_do_what_its_topic_may() {
        let settings = listed(&[("webchat", ChannelMode::Live)]);
        assert_eq!(settings.mode_of_event("cron", "webchat"), ChannelMode::Live);
        assert_eq!(settings.mode_of_event("cron", "elsewhere"), ChannelMode::Off);
        let settings = listed(&[("webchat", ChannelMode::Live), ("cron", ChannelMode::Shadow)]);
        assert_eq!(settings.mode_of_event("cron", "webchat"), ChannelMode::Shadow);
        assert_eq!(settings.mode_of_event("webchat", "webchat"), ChannelMode::Live);
    }

    #[test]
    fn nothing_runs_where_the_channel_or_that_of_the_topic_is_off() {
        let settings = listed(&[("webchat", ChannelMode::Live), ("cron", ChannelMode::Live)]);
        assert!(!settings.is_off("cron", "webchat") && settings.may_say("cron", "webchat"));
        assert!(settings.is_off("cron", "elsewhere") && settings.is_off("elsewhere", "elsewhere"));
        let settings = listed(&[("webchat", ChannelMode::Live), ("cron", ChannelMode::Off)]);
        assert!(settings.is_off("cron", "webchat") && !settings.is_off("webchat", "webchat"));
        let settings = listed(&[("webchat", ChannelMode::Shadow), ("cron", ChannelMode::Live)]);
        assert!(!settings.may_say("cron", "webchat") && !settings.is_off("cron", "webchat"));
    }

    #[test]
    fn what_a_webhook_brings_may_do_what_the_channel_of_its_topic_may() {
        let settings = listed(&[("webchat", ChannelMode::Live), ("hook:quiet", ChannelMode::Shadow)]);
        assert_eq!(settings.mode_of_event("hook:ci", "webchat"), ChannelMode::Live);
        assert_eq!(settings.mode_of_event("hook:ci", "hook:ci"), ChannelMode::Off);
        assert_eq!(settings.mode_of_event("hook:quiet", "webchat"), ChannelMode::Shadow);
        assert_eq!(settings.mode_of_event("webhook", "webchat"), ChannelMode::Off);
    }

    #[test]
    fn a_source_has_the_mode_of_the_channel_it_was_learned_to_be() {
        let mut settings = listed(&[("matrix-1", ChannelMode::Live)]);
        assert_eq!(settings.mode_of("urn:connector:matrix-1"), ChannelMode::Off);
        settings.sources.insert("urn:connector:matrix-1".to_owned(), "matrix-1".to_owned());
        assert_eq!(settings.mode_of("urn:connector:matrix-1"), ChannelMode::Live);
        assert!(settings.may_say("cron", "urn:connector:matrix-1"));
        assert_eq!(settings.source_of("matrix-1"), "urn:connector:matrix-1");
        assert_eq!((settings.source_of("cli"), settings.channel_of("cli")), ("cli", "cli"));
    }

    #[test]
    fn a_source_that_nothing_was_learned_of_is_the_channel_that_its_event_names() {
        let mut settings = listed(&[("matrix-1", ChannelMode::Live)]);
        assert!(!settings.will_be_off("matrix-1", "urn:connector:matrix-1"));
        assert!(settings.is_off("matrix-1", "urn:connector:matrix-1"), "all of a topic has one mode");
        assert!(settings.will_be_off("cron", "urn:connector:matrix-1"), "it may be any channel yet");
        settings.sources.insert("urn:connector:matrix-1".to_owned(), "matrix-1".to_owned());
        assert!(!settings.is_off("cron", "urn:connector:matrix-1"));
        assert!(!settings.is_off("matrix-1", "urn:connector:matrix-1"));
        settings.sources.insert("urn:connector:other".to_owned(), "other".to_owned());
        assert!(settings.will_be_off("matrix-1", "urn:connector:other"), "what was learned stands");
    }

    #[test]
    fn a_name_belongs_to_one_source_and_some_names_to_the_server() {
        let mut settings = listed(&[("work", ChannelMode::Live), ("m", ChannelMode::Live)]);
        settings.sources.insert("urn:connector:m".to_owned(), "m".to_owned());
        let check = |source, channel, standing| settings.check_name(source, channel, standing);
        let key = Standing::Key;
        assert_eq!(check("urn:connector:m", "m", key), Ok(()));
        assert_eq!(check("telegram", "telegram", key), Ok(()));
        assert_eq!(check("urn:connector:work", "work", key), Ok(()));
        assert_eq!(check("urn:x", "work", Standing::Owner), Ok(()));
        let taken = NameRefusal::Taken { channel: "m".to_owned(), by: "urn:connector:m".to_owned() };
        assert_eq!(check("urn:x", "m", Standing::Owner), Err(taken.clone()));
        assert_eq!(check("m", "m", key), Err(taken.clone()));
        assert_eq!(
            taken.to_string(),
            "the name m belongs to another connector (urn:connector:m); choose another connectorId, or free the name \
             with `cortex connector unbind urn:connector:m`"
        );
        assert_eq!(check("urn:x", "cli", Standing::Owner), Err(NameRefusal::Reserved("cli".to_owned())));
        let work = |of: &str| NameRefusal::Listed { of: of.to_owned(), channel: "work".to_owned() };
        assert_eq!(check("urn:x", "work", key), Err(work("urn:x")));
        assert_eq!(check("homework", "work", key), Err(work("homework")));
        let bound = NameRefusal::Bound { of: "urn:connector:m".to_owned(), channel: "m".to_owned() };
        assert_eq!(check("urn:connector:m", "other", Standing::Owner), Err(bound));
    }

    #[test]
    fn identities_join_accounts_and_without_any_everybody_is_the_owner() {
        let mut settings = ChannelSettings::default();
        assert_eq!(settings.accounts_of("tg:1"), Accounts::Everyone);
        assert_eq!(settings.relationship_of("tg:1"), Relationship::Owner);
        let accounts = vec!["tg:1".to_owned(), "web:ada".to_owned()];
        settings.identities.insert("ada".to_owned(), accounts.clone());
        assert_eq!(settings.accounts_of("web:ada"), Accounts::Only(accounts));
        assert_eq!(settings.relationship_of("web:ada"), Relationship::Known);
        assert_eq!(settings.relationship_of("eve"), Relationship::Unknown);
        assert_eq!(settings.accounts_of("eve"), Accounts::Only(vec!["eve".to_owned()]));
    }

    #[test]
    fn an_account_is_its_persons_on_the_source_that_vouches_for_it() {
        let mut settings = ChannelSettings::default();
        let accounts = ["tg:1", "slack:U1", "mail/boss", "home"].map(str::to_owned).to_vec();
        settings.identities.insert("ada".to_owned(), accounts);
        let check = |speaker: Speaker, user: &str, expected: &str, relationship| {
            let person = settings.person_of(&speaker, user);
            assert_eq!(
                (person.as_str(), settings.relationship_of(&person)),
                (expected, relationship),
                "{user}"
            );
        };
        let (known, unknown) = (Relationship::Known, Relationship::Unknown);
        check(Speaker::key("telegram"), "tg:1", "tg:1", known);
        check(Speaker::key("slack"), "slack:U1", "slack:U1", known);
        check(Speaker::trusted("mail", "m"), "boss", "mail/boss", known);
        check(Speaker::owner("web"), "tg:1", "tg:1", known);
        check(Speaker::owner("cli"), "home", "home", known);
        check(Speaker::key("mail"), "tg:1", "mail/tg:1", unknown);
        check(Speaker::key("mail"), "home", "mail/home", unknown);
        check(Speaker::key("tg"), "tg:1", "tg/tg:1", unknown);
        check(Speaker::trusted("tg", "tg"), "tg:1", "tg/tg:1", unknown);
        check(Speaker::key("slack"), "mail/boss", "slack/mail/boss", unknown);
        check(Speaker::key("slack"), "boss", "boss", unknown);
        check(Speaker::local("m"), "tg:1", "local:m:tg:1", unknown);
    }

    #[test]
    fn a_session_without_a_key_is_neither_the_owner_nor_joined_with_anybody() {
        let mut settings = ChannelSettings::default();
        let stranger = "local:m:tg:1";
        let alone = Accounts::Only(vec![stranger.to_owned()]);
        assert_eq!(settings.accounts_of(stranger), alone);
        assert_eq!(settings.relationship_of(stranger), Relationship::Unknown);
        settings.identities.insert("ada".to_owned(), vec!["tg:1".to_owned(), stranger.to_owned()]);
        assert_eq!(settings.accounts_of(stranger), alone);
        assert_eq!(settings.accounts_of("tg:1"), Accounts::Only(vec!["tg:1".to_owned()]));
        assert_eq!(settings.relationship_of(stranger), Relationship::Unknown);
    }
}
