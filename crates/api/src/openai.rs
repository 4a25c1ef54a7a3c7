//! `/v1/*`: the shapes of OpenAI's API, as its clients know them; what they do not know of is in `cortex`.

use crate::schema;
use cortex_types::{ApprovalId, EventId, InboxStatus};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Every refusal below `/v1`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct OpenAiRefused {
    pub error: OpenAiError,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct OpenAiError {
    pub message: String,
    #[serde(rename = "type")]
    pub kind: String,
    /// The field that is at fault.
    pub param: Option<String>,
    pub code: Option<String>,
}

/// `POST /v1/chat/completions`. For the model `cortex` these fields count, and the others do nothing; for any other
/// model the whole body goes to a provider as it is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ChatCompletionRequest {
    /// `cortex` is the assistant; any other is a provider's.
    pub model: String,
    /// The last one of the user is what was said; the assistant has its own history.
    #[schema(value_type = Vec<Object>)]
    pub messages: Vec<serde_json::Value>,
    #[serde(default)]
    pub stream: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub stream_options: Option<serde_json::Value>,
    /// Who speaks, and which conversation it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ChatCompletion {
    pub id: String,
    /// `chat.completion`.
    pub object: String,
    /// Seconds since 1970.
    pub created: i64,
    pub model: String,
    pub choices: Vec<ChatChoice>,
    pub usage: ChatUsage,
    pub cortex: CortexNote,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ChatChoice {
    pub index: u32,
    pub message: ChatChoiceMessage,
    pub finish_reason: String,
    #[schema(value_type = Option<Object>)]
    pub logprobs: Option<()>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ChatChoiceMessage {
    pub role: String,
    pub content: String,
    pub refusal: Option<String>,
}

/// One server-sent event of a streamed completion; the last one has `cortex`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ChatCompletionChunk {
    pub id: String,
    /// `chat.completion.chunk`.
    pub object: String,
    pub created: i64,
    pub model: String,
    pub choices: Vec<ChatChunkChoice>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<ChatUsage>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cortex: Option<CortexNote>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ChatChunkChoice {
    pub index: u32,
    pub delta: ChatChunkDelta,
    pub finish_reason: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ChatChunkDelta {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ChatUsage {
    pub prompt_tokens: u64,
    pub completion_tokens: u64,
    pub total_tokens: u64,
}

/// What became of the event behind an answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CortexNote {
    #[schema(value_type = String)]
    pub event_id: EventId,
    #[schema(schema_with = schema::inbox_status)]
    pub status: InboxStatus,
    /// Questions that wait for an answer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub approvals: Vec<CortexApproval>,
    /// Why there is no answer, when a setting held it back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CortexApproval {
    #[schema(value_type = String)]
    pub id: ApprovalId,
    /// A page that shows the question and takes the answer.
    pub url: String,
}

/// `POST /v1/responses`; as with chat, other fields count only for other models.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ResponsesRequest {
    pub model: String,
    /// A text, or a list of messages of which the user's last one counts.
    #[schema(value_type = Object)]
    pub input: serde_json::Value,
    #[serde(default)]
    pub stream: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Goes on in the conversation of that response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous_response_id: Option<String>,
    /// Names the conversation: an id, or an object with one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub conversation: Option<serde_json::Value>,
}

/// `GET /v1/models`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ModelCardList {
    /// `list`.
    pub object: String,
    pub data: Vec<ModelCard>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ModelCard {
    pub id: String,
    /// `model`.
    pub object: String,
    pub created: i64,
    pub owned_by: String,
}

/// `POST /v1/embeddings`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct EmbeddingsRequest {
    /// `cortex`, or the name of the embedder in use; any other is a provider's.
    pub model: String,
    /// A text or a list of texts.
    #[schema(value_type = Object)]
    pub input: serde_json::Value,
    /// `float` or `base64`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encoding_format: Option<String>,
    /// Only the embedder's own number is taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dimensions: Option<u32>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct EmbeddingsList {
    /// `list`.
    pub object: String,
    pub data: Vec<EmbeddingRow>,
    pub model: String,
    pub usage: EmbeddingsUsage,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct EmbeddingRow {
    /// `embedding`.
    pub object: String,
    pub index: usize,
    pub embedding: EmbeddingVector,
}

/// Numbers, or their little-endian bytes in base64.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
pub enum EmbeddingVector {
    Floats(Vec<f32>),
    Base64(String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EmbeddingsUsage {
    pub prompt_tokens: u64,
    pub total_tokens: u64,
}
