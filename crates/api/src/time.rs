//! A moment on the wire: RFC 3339 in UTC outside, epoch milliseconds inside.

use cortex_types::Millis;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};
use utoipa::ToSchema;

/// RFC 3339 in UTC with milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ToSchema)]
#[schema(value_type = String, format = DateTime, example = "2026-02-15T20:30:00.000Z")]
pub struct WireTime(pub Millis);

impl From<Millis> for WireTime {
    fn from(at: Millis) -> Self {
        Self(at)
    }
}

impl Serialize for WireTime {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0.to_rfc3339())
    }
}

impl<'de> Deserialize<'de> for WireTime {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let timestamp: jiff::Timestamp = text.parse().map_err(D::Error::custom)?;
        Ok(Self(Millis(timestamp.as_millisecond())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_reads_back_from_its_own_text() {
        let at = WireTime(Millis(1_771_187_400_123));
        let text = serde_json::to_string(&at).unwrap();
        assert_eq!(text, "\"2026-02-15T20:30:00.123Z\"");
        assert_eq!(serde_json::from_str::<WireTime>(&text).unwrap(), at);
        assert!(serde_json::from_str::<WireTime>("\"yesterday\"").is_err());
    }
}
