//! One newtype per id: a prefix and a ULID, so that ids sort by time and say what they name.

use crate::Millis;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use ulid::Ulid;

/// A text that is not the id it should be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not an id of the form {prefix}<ULID>")]
pub struct IdError {
    prefix: &'static str,
    text: String,
}

macro_rules! id_type {
    ($(#[$doc:meta])* $name:ident, $prefix:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            pub const PREFIX: &'static str = $prefix;

            pub fn from_ulid(ulid: Ulid) -> Self {
                Self(format!("{}{ulid}", Self::PREFIX))
            }

            pub fn from_bits(bits: u128) -> Self {
                Self::from_ulid(Ulid::from(bits))
            }

            /// The 128 bits behind the prefix.
            pub fn ulid_bits(&self) -> u128 {
                let ulid = self.0.strip_prefix(Self::PREFIX).and_then(|rest| Ulid::from_string(rest).ok());
                u128::from(ulid.unwrap_or_default())
            }

            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = IdError;

            fn from_str(text: &str) -> Result<Self, IdError> {
                let ulid = text.strip_prefix(Self::PREFIX).filter(|rest| Ulid::from_string(rest).is_ok());
                match ulid {
                    Some(_) => Ok(Self(text.to_owned())),
                    None => Err(IdError { prefix: Self::PREFIX, text: text.chars().take(64).collect() }),
                }
            }
        }

        impl TryFrom<String> for $name {
            type Error = IdError;

            fn try_from(text: String) -> Result<Self, IdError> {
                text.parse()
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> String {
                id.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

id_type!(
    /// An accepted inbound message.
    EventId, "evt_"
);
id_type!(
    /// A message on its way out.
    OutboxId, "out_"
);
id_type!(
    /// Proof that a connector holds the lease of an outbox message.
    LeaseToken, "lease_"
);

id_type!(
    /// One question to a person about one tool call.
    ApprovalId, "apv_"
);
id_type!(
    /// A time-boxed permission for one exact call.
    GrantId, "grt_"
);

id_type!(
    /// Something remembered.
    FactId, "fct_"
);
id_type!(
    /// Work in flight elsewhere.
    OpId, "op_"
);

id_type!(
    /// A key of a connector.
    KeyId, "key_"
);

impl OutboxId {
    /// A new id. Its bits are those of a UUID of version 7, so that clients which know messages by a UUID and validate it
    /// take the same id in the other spelling.
    pub fn new_at(now: Millis, random: u128) -> Self {
        let bits = u128::from(Ulid::from_parts(u64::try_from(now.0).unwrap_or(0), random));
        let (version, variant) = (0x7_u128 << 76, 0x2_u128 << 62);
        Self::from_bits(bits & !(0xf_u128 << 76) & !(0x3_u128 << 62) | version | variant)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_parses_back_and_refuses_a_foreign_prefix() {
        let id = EventId::from_ulid(Ulid::from_parts(1, 2));
        assert_eq!(id.as_str().parse::<EventId>(), Ok(id.clone()));
        assert!(id.as_str().parse::<OutboxId>().is_err());
        assert!("evt_".parse::<EventId>().is_err());
    }

    #[test]
    fn a_new_outbox_id_has_the_bits_of_a_uuid_of_version_seven_and_sorts_by_time() {
        let at = |now, random| OutboxId::new_at(Millis(now), random);
        for random in [0, u128::MAX, 0x1234_5678_9abc_def0_1234] {
            let bits = at(0x0191_2345_6789, random).ulid_bits();
            assert_eq!((bits >> 80, bits >> 76 & 0xf, bits >> 62 & 0x3), (0x0191_2345_6789, 7, 2));
        }
        assert!(at(1, u128::MAX) < at(2, 0));
        assert_ne!(at(1, 1), at(1, 2));
    }
}
