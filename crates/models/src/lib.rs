//! Language models behind one door: which provider answers, what it said, what it cost.

mod config;
mod delta;
mod error;
mod failover;
mod price;

pub use config::{
    FoundKey, FoundKeys, ModelsConfig, Profile, ProfileKind, ProviderSettings, SynapseSetting, TierModels,
    Timeouts, http_client,
};
pub use delta::{Delta, DeltaSink};
pub use error::{ModelError, ModelsError};
pub use failover::{Answered, Models, Origin, ProviderInfo};
pub use price::{Price, PriceTable};
