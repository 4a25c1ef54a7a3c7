//! What `ctx.http.fetch` asks for and gets, in the form in which it travels between engine and keeper.

use crate::egress::{FetchRequest, FetchResponse, Held};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A request of a skill, before the egress guard has looked at it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SkillRequest {
    pub(crate) method: String,
    pub(crate) url: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Option<Bytes>,
}

/// What came back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SkillResponse {
    pub(crate) status: u16,
    /// Where the answer came from, after redirects.
    pub(crate) url: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Bytes,
    /// Until it is handed over, it counts among what all fetches hold.
    #[serde(skip)]
    pub(crate) held: Held,
}

/// Bytes that travel as base64 between processes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Bytes(pub(crate) Vec<u8>);

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&BASE64_STANDARD.encode(&self.0))
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        BASE64_STANDARD.decode(text).map(Self).map_err(serde::de::Error::custom)
    }
}

impl From<SkillRequest> for FetchRequest {
    fn from(request: SkillRequest) -> Self {
        Self {
            method: request.method,
            headers: request.headers,
            body: request.body.unwrap_or_default().0,
            ..Self::get(&request.url)
        }
    }
}

impl From<FetchResponse> for SkillResponse {
    fn from(response: FetchResponse) -> Self {
        Self {
            status: response.status,
            url: response.url,
            headers: response.headers,
            body: Bytes(response.body),
            held: response.held,
        }
    }
}
