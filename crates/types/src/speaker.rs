//! Speakers: who says something, how that was proven, and what follows from it.

use crate::status::UnknownStatus;
use crate::{Accounts, HOOK_CHANNEL_START, is_machine_channel};
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};

/// Sources, channels and people of sessions without a key have this start (D23).
pub const LOCAL_START: &str = "local:";
/// The source of `cortex send` and `cortex chat`.
pub const CLI_SOURCE: &str = "cli";
/// Nobody's source: the word for what the server itself says.
const SYSTEM_SOURCE: &str = "system";
/// The source of what comes through OpenAI's door.
pub const OPENAI_SOURCE: &str = "openai";

/// Whether a source, channel or person belongs to a session without a key.
pub fn is_local(name: &str) -> bool {
    name.starts_with(LOCAL_START)
}

/// How people of Telegram are called; no other source has people of this start, whatever its own name is.
const TELEGRAM_PEOPLE: &str = "tg:";
const TELEGRAM_SOURCE: &str = "telegram";

/// Whether a user id says itself which source it is of, as `slack:U1` does, and `tg:1` of telegram.
pub fn names_its_source(source: &str, user_id: &str) -> bool {
    if let Some(rest) = user_id.strip_prefix(TELEGRAM_PEOPLE) {
        return source == TELEGRAM_SOURCE && !rest.is_empty();
    }
    user_id.strip_prefix(source).is_some_and(|rest| rest.starts_with(':') && rest.len() > 1)
}

/// Whether only the owner speaks through a source.
pub fn is_owners_source(source: &str) -> bool {
    source == CLI_SOURCE || source == OPENAI_SOURCE
}

/// Whether a source belongs to the server and its owner, so that no connector may have it.
pub fn is_reserved_source(source: &str) -> bool {
    is_owners_source(source) || source == SYSTEM_SOURCE || is_local(source) || is_machine_channel(source)
}

crate::status::status_type!(
    /// How the source of an event proved itself.
    Standing, "owner, key, trusted, local, hook, inside", {
        /// By a key of the owner.
        Owner = "owner",
        /// By the key of a connector, for its one source.
        Key = "key",
        /// Not at all, but the owner trusts the connector of this name.
        Trusted = "trusted",
        /// Not at all: any program on this machine.
        Local = "local",
        /// By what the hook asks for: that is a machine, whatever its payload says.
        Hook = "hook",
        /// The event was made here, by a schedule or an op.
        Inside = "inside",
    }
);

impl Standing {
    /// Whether a person on this source may answer questions: the source vouches for them.
    pub fn vouches_for_people(self) -> bool {
        match self {
            Self::Owner | Self::Key | Self::Trusted => true,
            Self::Local | Self::Hook | Self::Inside => false,
        }
    }

    /// What a turn in a topic of this source, read by these, may see of the owner's memory. What a hook brings, or what is
    /// made here, is answered where its topic is: the programs that read the answers of a hook, or of a session without a
    /// key, are not the owner (D21).
    pub fn sight(self, source: &str, audience: Audience) -> Sight {
        let is_answered_outside = is_local(source) || source.starts_with(HOOK_CHANNEL_START);
        let is_the_owners = match self {
            Self::Owner | Self::Key | Self::Trusted => true,
            Self::Hook | Self::Inside => !is_answered_outside,
            Self::Local => false,
        };
        match (is_the_owners, audience) {
            (false, _) => Sight::Nothing,
            (true, Audience::Private) => Sight::Everything,
            (true, Audience::Group) => Sight::Place,
        }
    }

    /// Whether its words are the owner's or those of somebody whom a source vouches for. All others write data.
    pub fn is_proven(self) -> bool {
        match self {
            Self::Owner | Self::Key | Self::Trusted | Self::Inside => true,
            Self::Local | Self::Hook => false,
        }
    }

    /// What an event of a topic of this source would have, when nobody said it.
    pub fn of_source(source: &str) -> Self {
        match source {
            source if is_local(source) => Self::Local,
            source if source.starts_with(HOOK_CHANNEL_START) => Self::Hook,
            _ => Self::Owner,
        }
    }
}

crate::status::status_type!(
    /// Who reads what is said in a topic.
    Audience, "private, group", {
        /// One person.
        Private = "private",
        /// Several, of whom only one may be the owner.
        Group = "group",
    }
);

/// The word of an event's metadata by which a connector says who reads along.
pub const CHAT_TYPE: &str = "chatType";

impl Audience {
    /// What a connector says with an event; `None` when it says nothing. A source that did not prove itself is not
    /// believed, and a word that nobody knows is a group's: it may be one of another platform's words for several people.
    pub fn said(standing: Standing, metadata_json: Option<&str>) -> Option<Self> {
        #[derive(Deserialize)]
        struct Said {
            #[serde(rename = "chatType")]
            chat_type: Option<ChatType>,
        }
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum ChatType {
            Known(Audience),
            Other(IgnoredAny),
        }
        let said: Said = serde_json::from_str(metadata_json?).ok()?;
        match said.chat_type.filter(|_| standing.vouches_for_people())? {
            ChatType::Known(audience) => Some(audience),
            ChatType::Other(_) => Some(Self::Group),
        }
    }

    /// Who reads an event's topic: a group, once the event or its topic says so.
    pub fn of_event(standing: Standing, metadata_json: Option<&str>, of_topic: Self) -> Self {
        match (Self::said(standing, metadata_json), of_topic) {
            (Some(Self::Group), _) | (_, Self::Group) => Self::Group,
            (Some(Self::Private) | None, Self::Private) => Self::Private,
        }
    }
}

/// How much of the owner's memory a turn sees, in its prompt and by its tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sight {
    /// Files, facts, other channels, schedules.
    Everything,
    /// What was said and kept in the topic itself, its own schedules and ops, and facts that hold for its whole channel.
    /// Facts that hold everywhere are left out: while everybody is one owner, all that is learned of a person holds so.
    Place,
    /// Only what was said in the topic.
    Nothing,
}

impl Sight {
    /// The people whose facts and words are seen, of those who are the speaker.
    pub fn people(self, accounts: Accounts) -> Accounts {
        match self {
            Self::Everything => accounts,
            Self::Place | Self::Nothing => Accounts::Only(Vec::new()),
        }
    }
}

/// Who says something. Decided once, from the credential; never from what an event claims.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Speaker {
    source: String,
    channel: Option<String>,
    standing: Standing,
}

impl Speaker {
    /// The owner's credential, which may speak for every source.
    pub fn owner(source: impl Into<String>) -> Self {
        Self { source: source.into(), channel: None, standing: Standing::Owner }
    }

    /// A connector's key.
    pub fn key(source: impl Into<String>) -> Self {
        Self { source: source.into(), channel: None, standing: Standing::Key }
    }

    /// A connector without a key that the owner trusts.
    pub fn trusted(source: impl Into<String>, connector_id: &str) -> Self {
        let trusted = Self { source: source.into(), channel: None, standing: Standing::Trusted };
        trusted.on_channel(connector_id)
    }

    /// Any program on this machine, in a namespace of its own.
    pub fn local(connector_id: &str) -> Self {
        let source = format!("{LOCAL_START}{connector_id}");
        Self { source, channel: None, standing: Standing::Local }
    }

    /// A hook; `source` is where its events go.
    pub fn hook(channel: impl Into<String>, source: impl Into<String>) -> Self {
        Self { source: source.into(), channel: Some(channel.into()), standing: Standing::Hook }
    }

    /// The same on a channel that has another name than its source (D18).
    #[must_use]
    pub fn on_channel(self, channel: &str) -> Self {
        Self { channel: Some(channel.to_owned()), ..self }
    }

    pub fn source(&self) -> &str {
        &self.source
    }

    /// Where it has another name than the source.
    pub fn own_channel(&self) -> Option<&str> {
        self.channel.as_deref()
    }

    pub fn channel(&self) -> &str {
        self.own_channel().unwrap_or(&self.source)
    }

    pub fn standing(&self) -> Standing {
        self.standing
    }

    /// The person behind a claimed user id. A program without a key names only people of its own.
    pub fn person(&self, user_id: &str) -> String {
        match self.standing {
            Standing::Local => format!("{}:{user_id}", self.source),
            Standing::Owner | Standing::Key | Standing::Trusted | Standing::Hook | Standing::Inside => {
                user_id.to_owned()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_without_a_key_has_a_namespace_of_its_own() {
        let stranger = Speaker::local("cli");
        assert_eq!((stranger.source(), stranger.channel()), ("local:cli", "local:cli"));
        assert_eq!(stranger.person("cli:owner"), "local:cli:cli:owner");
        assert!(!stranger.standing().vouches_for_people());
        assert_eq!(stranger.standing().sight(stranger.source(), Audience::Private), Sight::Nothing);
        let trusted = Speaker::trusted("urn:connector:m", "m");
        assert_eq!((trusted.source(), trusted.channel()), ("urn:connector:m", "m"));
        assert_eq!(trusted.person("ada"), "ada");
        assert!(trusted.standing().vouches_for_people());
        assert_eq!(trusted.standing().sight(trusted.source(), Audience::Private), Sight::Everything);
    }

    #[test]
    fn what_is_answered_to_a_machine_sees_nothing_of_the_owners_memory() {
        let sees =
            |standing: Standing, source| standing.sight(source, Audience::Private) == Sight::Everything;
        for standing in &[Standing::Hook, Standing::Inside] {
            for (source, expected) in
                [("hook:gh", false), ("local:m", false), ("telegram", true), ("cli", true)]
            {
                assert_eq!(sees(*standing, source), expected, "{standing} in {source}");
            }
        }
        for (source, expected) in [("hook:gh", false), ("local:m", false), ("telegram", true)] {
            assert_eq!(sees(Standing::of_source(source), source), expected, "{source}");
        }
    }

    #[test]
    fn a_group_sees_its_place_alone_whoever_speaks_there() {
        for standing in Standing::ALL {
            let sight = standing.sight("telegram", Audience::Group);
            let expected = if *standing == Standing::Local { Sight::Nothing } else { Sight::Place };
            assert_eq!(sight, expected, "{standing}");
            assert_eq!(sight.people(Accounts::Everyone), Accounts::Only(Vec::new()));
        }
        assert_eq!(Standing::Hook.sight("hook:gh", Audience::Group), Sight::Nothing);
    }

    #[test]
    fn only_a_source_that_proved_itself_says_who_reads_along() {
        use Audience::{Group, Private};
        for (metadata, expected) in [
            (Some(r#"{"chatType":"group"}"#), Some(Group)),
            (Some(r#"{"chatType":"private"}"#), Some(Private)),
            (Some(r#"{"chatType":"supergroup"}"#), Some(Group)),
            (Some(r#"{"chatType":7}"#), Some(Group)),
            (Some(r#"{"chatType":null}"#), None),
            (Some(r#"{"chatId":"1"}"#), None),
            (None, None),
        ] {
            for standing in [Standing::Owner, Standing::Key, Standing::Trusted] {
                assert_eq!(Audience::said(standing, metadata), expected, "{metadata:?}");
            }
            for standing in [Standing::Local, Standing::Hook, Standing::Inside] {
                assert_eq!(Audience::said(standing, metadata), None, "{metadata:?}");
            }
        }
        let private = Some(r#"{"chatType":"private"}"#);
        assert_eq!(Audience::of_event(Standing::Key, private, Group), Group);
        assert_eq!(Audience::of_event(Standing::Inside, None, Group), Group);
        assert_eq!(Audience::of_event(Standing::Key, private, Private), Private);
    }

    #[test]
    fn a_user_id_names_its_source_and_tg_is_telegram_alone() {
        for (source, user) in
            [("telegram", "tg:1"), ("telegram", "telegram:1"), ("slack", "slack:U1"), ("urn:x", "urn:x:1")]
        {
            assert!(names_its_source(source, user), "{source} {user}");
        }
        for (source, user) in [
            ("tg", "tg:1"),
            ("tg:x", "tg:x:1"),
            ("slack", "tg:1"),
            ("telegram", "tg:"),
            ("slack", "slack:"),
            ("slack", "slacker:1"),
        ] {
            assert!(!names_its_source(source, user), "{source} {user}");
        }
    }

    #[test]
    fn the_servers_own_sources_are_nobody_elses() {
        for own in ["cli", "openai", "system", "cron", "router", "hook:ci", "local:m"] {
            assert!(is_reserved_source(own), "{own}");
        }
        for free in ["telegram", "urn:connector:m", "client", "hooks"] {
            assert!(!is_reserved_source(free), "{free}");
        }
    }
}
