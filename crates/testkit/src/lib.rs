//! Parts for tests: third parties' fakes, a store, the runtime and the whole server, and time that stands still.

mod aimock;
mod client;
mod connector;
mod flood;
mod foreign;
mod frozen_time;
mod intruder;
mod json;
mod models;
mod patience;
mod runtime;
mod server;
mod store;
mod tricky;

pub use aimock::Aimock;
pub use client::{Answer, Request, exchange};
pub use connector::{Heard, TestConnector, said_over};
pub use flood::{Flooded, Memory, crumbled_event, crumbs, half_message};
pub use foreign::ForeignClients;
pub use frozen_time::FrozenTime;
pub use intruder::{
    change_asked_arguments, damage_delivery, damage_event, damage_fact, damage_first_page, damage_job,
    damage_question, lose_turn,
};
pub use json::Json;
pub use models::{TestModels, offline_models, offline_models_within};
pub use patience::{eventually, pause};
pub use runtime::{RuntimeSetup, TestRuntime};
pub use server::{OWNER_KEY, RunningTestServer, ServerSetup};
pub use store::{TempStore, answered, memory_folder, new_event, new_reply, sent_again, topic};
pub use tricky::{html_shown, is_hidden, pushes_aside, shown_argument, tricky_arguments, unspelled};
