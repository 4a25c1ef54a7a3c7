//! The states a row can be in, as closed lists.

use serde::{Deserialize, Serialize};

/// A word that names no status.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a status; use one of {1}")]
pub struct UnknownStatus(pub(crate) String, pub(crate) &'static str);

macro_rules! status_type {
    ($(#[$doc:meta])* $name:ident, $words:literal, { $($(#[$variant_doc:meta])* $variant:ident = $word:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum $name { $($(#[$variant_doc])* $variant,)+ }

        impl $name {
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word,)+ }
            }
        }

        impl std::str::FromStr for $name {
            type Err = UnknownStatus;

            fn from_str(word: &str) -> Result<Self, UnknownStatus> {
                match word {
                    $($word => Ok(Self::$variant),)+
                    other => Err(UnknownStatus(other.chars().take(40).collect(), $words)),
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}

pub(crate) use status_type;

status_type!(
    /// The life of an event in the inbox.
    InboxStatus, "pending, processing, waiting, done, failed", {
        Pending = "pending",
        Processing = "processing",
        /// Suspended until a person answers; does not hold its topic (D9).
        Waiting = "waiting",
        Done = "done",
        Failed = "failed",
    }
);

status_type!(
    /// The life of a message in the outbox.
    OutboxStatus, "pending, leased, delivered, dead, suppressed, discarded", {
        Pending = "pending",
        Leased = "leased",
        Delivered = "delivered",
        Dead = "dead",
        /// Recorded and never sent, because a channel is not live.
        Suppressed = "suppressed",
        /// Given up by a person.
        Discarded = "discarded",
    }
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_status_word_parses_back() {
        for status in InboxStatus::ALL {
            assert_eq!(status.as_str().parse(), Ok(*status));
        }
        for status in OutboxStatus::ALL {
            assert_eq!(status.as_str().parse(), Ok(*status));
        }
        assert!("sent".parse::<OutboxStatus>().is_err());
    }
}
