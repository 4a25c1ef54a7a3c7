//! The models that there are: those that were set up, and those that the providers list.

use crate::endpoint::Endpoint;
use crate::error::CallError;
use crate::failover::Models;
use crate::model::RelayWire;
use crate::openai::UNNAMED_MODEL;
use crate::room::{NoRoom, Room};
use crate::sparing::{FirstOf, Loose};
use futures::future;
use serde::Deserialize;
use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::time::timeout;

/// How long a server may take to list its models.
const LISTING_MAX: Duration = Duration::from_secs(2);
/// How many models of one server are listed; the largest market places have some hundreds.
const LISTED_MAX: usize = 4_096;

/// A model that a provider has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedModel {
    pub id: String,
    /// The name of its provider.
    pub provider: String,
}

impl Models {
    /// The names of the models that were set up, first asked first.
    pub fn set_up_models(&self) -> Vec<ListedModel> {
        let on_wires = self.providers.iter().filter(|provider| provider.place.is_some());
        let named = on_wires
            .map(|provider| ListedModel { id: provider.model.name(), provider: provider.name.clone() });
        without_repeats(named.filter(|listed| listed.id != UNNAMED_MODEL))
    }

    /// Every model of the providers, as far as they list them in time.
    pub async fn listed_models(&self, room: &dyn Room) -> Result<Vec<ListedModel>, NoRoom> {
        let together = Together { room, held: AtomicUsize::new(0) };
        let listings = self.providers.iter().filter_map(|provider| {
            let endpoint = match provider.model.relay()? {
                RelayWire::Openai(endpoint) => endpoint,
                RelayWire::Other(_) => return None,
            };
            Some(listing(endpoint, &provider.name, &together))
        });
        let listed = future::try_join_all(listings).await?.into_iter().flatten();
        Ok(without_repeats(self.set_up_models().into_iter().chain(listed)))
    }
}

/// The room of several listings that are read at the same time.
struct Together<'a> {
    room: &'a dyn Room,
    held: AtomicUsize,
}

impl Together<'_> {
    fn hold_more(&self, bytes: usize) -> Result<(), NoRoom> {
        self.room.hold(self.held.fetch_add(bytes, Ordering::Relaxed) + bytes)
    }
}

#[derive(Deserialize)]
struct Listing {
    #[serde(default)]
    data: FirstOf<Row, LISTED_MAX>,
}

#[derive(Deserialize)]
#[serde(try_from = "AnyRow")]
struct Row {
    id: String,
}

#[derive(Deserialize)]
struct AnyRow {
    #[serde(default)]
    id: Loose<String>,
}

impl TryFrom<AnyRow> for Row {
    type Error = &'static str;

    fn try_from(AnyRow { id }: AnyRow) -> Result<Self, Self::Error> {
        Ok(Self { id: id.0.ok_or("it has no name")? })
    }
}

/// The first model of a listing.
pub(crate) fn first_listed(listing: &[u8]) -> Option<String> {
    let Listing { data } = serde_json::from_slice(listing).ok()?;
    Some(data.0.into_iter().next()?.id)
}

async fn listing(
    endpoint: &Endpoint,
    provider: &str,
    together: &Together<'_>,
) -> Result<Vec<ListedModel>, NoRoom> {
    let reading = endpoint.get_bytes(endpoint.url(&["models"]), |bytes| together.hold_more(bytes));
    // One that does not list its models has none for this list.
    let read = match timeout(LISTING_MAX, reading).await {
        Ok(Ok(read)) => read,
        Ok(Err(CallError::NoRoom(none))) => return Err(none),
        Ok(Err(_)) | Err(_) => return Ok(Vec::new()),
    };
    let Ok(Listing { data }) = serde_json::from_slice(&read) else { return Ok(Vec::new()) };
    let listed = |Row { id }| ListedModel { id, provider: provider.to_owned() };
    Ok(data.0.into_iter().map(listed).collect())
}

fn without_repeats(models: impl Iterator<Item = ListedModel>) -> Vec<ListedModel> {
    let mut known = HashSet::new();
    models.filter(|model| known.insert(model.id.clone())).collect()
}
