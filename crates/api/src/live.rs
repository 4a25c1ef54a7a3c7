//! `GET /api/v2/events/{id}/live`: what a turn says while it says it. A preview, never a delivery.

use crate::schema;
use cortex_types::InboxStatus;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// One server-sent event of the stream; its name is `name()`, its data `data()`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LiveEvent {
    /// More text.
    Delta(LiveDelta),
    /// What came so far is void: the attempt failed or a tool round follows.
    Restart,
    /// The turn ended; the stream ends with it.
    Done(LiveDone),
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LiveDelta {
    pub text: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LiveDone {
    #[schema(schema_with = schema::inbox_status)]
    pub status: InboxStatus,
    /// The whole reply; absent for silence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

/// A server-sent event that is none of ours.
#[derive(Debug, thiserror::Error)]
pub enum LiveError {
    #[error("unknown live event {0:?}")]
    UnknownName(String),
    #[error("the data of live event {name:?} is not what it should be")]
    BadData { name: String, source: serde_json::Error },
}

impl LiveEvent {
    pub fn name(&self) -> &'static str {
        match self {
            Self::Delta(_) => "delta",
            Self::Restart => "restart",
            Self::Done(_) => "done",
        }
    }

    /// The data line, JSON on one line.
    pub fn data(&self) -> Result<String, serde_json::Error> {
        match self {
            Self::Delta(delta) => serde_json::to_string(delta),
            Self::Restart => Ok("{}".to_owned()),
            Self::Done(done) => serde_json::to_string(done),
        }
    }

    pub fn parse(name: &str, data: &str) -> Result<Self, LiveError> {
        let bad = |source| LiveError::BadData { name: name.to_owned(), source };
        match name {
            "delta" => serde_json::from_str(data).map(Self::Delta).map_err(bad),
            "restart" => Ok(Self::Restart),
            "done" => serde_json::from_str(data).map(Self::Done).map_err(bad),
            other => Err(LiveError::UnknownName(other.chars().take(40).collect())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_live_event_reads_back_from_its_own_line() {
        let done = LiveDone { status: InboxStatus::Done, text: Some("a\nb".into()) };
        for event in
            [LiveEvent::Delta(LiveDelta { text: "hé".into() }), LiveEvent::Restart, LiveEvent::Done(done)]
        {
            let data = event.data().unwrap();
            assert!(!data.contains('\n'), "one line: {data}");
            assert_eq!(LiveEvent::parse(event.name(), &data).unwrap(), event);
        }
        assert!(LiveEvent::parse("ping", "{}").is_err());
    }
}
