//! Language models behind one door: which provider answers, what it said, what it cost.

mod alternate;
mod anthropic;
mod assemble;
mod collect;
mod config;
mod delta;
mod embed;
mod endpoint;
mod error;
mod failover;
mod google;
mod history;
mod listener;
mod model;
mod model_name;
mod offline;
mod openai;
mod price;
mod probe;
mod redact;
mod relay;
mod retry_after;
mod room;
mod sampling;
mod scripted;
mod socket_table;
mod sparing;
mod stream;
mod stub;
mod tool_name;

pub use config::{
    FoundKey, FoundKeys, ModelsConfig, Profile, ProfileKind, ProviderSettings, SynapseSetting, TierModels,
    Timeouts, http_client,
};
pub use delta::{Delta, DeltaSink};
pub use embed::{
    BUILT_IN_DIMS, BUILT_IN_EMBEDDER, EmbedError, Embedder, EmbeddingSettings, embed_built_in, normalised,
};
pub use error::{ModelError, ModelsError};
pub use failover::{Answered, Models, Origin, ProviderInfo};
pub use listener::{is_believed, is_own_client, stranger_at};
pub use price::{Price, PriceTable};
pub use relay::{ListedModel, RelayBody, RelayCut, RelayPath, RelayRefused, RelayRequest, Relayed};
pub use retry_after::parse_retry_after;
pub use room::{NoRoom, Room};
