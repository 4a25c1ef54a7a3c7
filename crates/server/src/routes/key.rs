//! `/api/v2/keys`: a key of its own for each connector.

use crate::auth::prefix_of;
use crate::body::JsonBody;
use crate::fields::Fields;
use crate::json::Json;
use crate::refusal::Refusal;
use crate::state::AppState;
use axum::extract::State;
use cortex_api::{ErrorBody, ErrorCode, KeyChoice, KeyInfo, KeyList, KeyRequest, NewKey};
use cortex_store::{ConnectorKey, Store, StoreError};
use cortex_types::{KeyId, is_reserved_source};
use sha2::{Digest, Sha256};
use ulid::Ulid;

/// Make a key that may use one source. Connectors that were trusted with it without a key no longer are.
#[utoipa::path(post, path = "/api/v2/keys", tag = "key", request_body = KeyRequest, responses(
    (status = 200, body = NewKey), (status = 400, body = ErrorBody),
    (status = 409, body = ErrorBody, description = "Another key has this name"),
))]
pub(crate) async fn create(
    State(app): State<AppState>,
    JsonBody(body): JsonBody,
) -> Result<Json<NewKey>, Refusal> {
    let mut fields = Fields::of(&body);
    let (name, source) = (fields.name("name"), fields.name("source"));
    if is_reserved_source(&source) {
        fields.complain(format!("source must not be {source}, which belongs to the server itself"));
    }
    fields.finish()?;
    let now = app.clock.now();
    let plain = new_key();
    let key = ConnectorKey {
        id: KeyId::from_ulid(Ulid::from_parts(u64::try_from(now.0).unwrap_or(0), rand::random())),
        prefix: prefix_of(&plain),
        sha256: Sha256::digest(plain.as_bytes()).into(),
        name,
        source,
        created_at: now,
        revoked_at: None,
    };
    let wanted = key.clone();
    let made = changed(&app, |store| async move { store.keys().create(wanted).await }).await?;
    let Ok(untrusted) = made else {
        let detail = format!("there is a key named {:?}; revoke it first, or choose another name", key.name);
        return Err(Refusal::because(ErrorCode::Conflict, detail));
    };
    Ok(Json(NewKey { id: key.id, name: key.name, source: key.source, key: plain, untrusted }))
}

/// Keys of connectors, revoked ones included.
#[utoipa::path(get, path = "/api/v2/keys", tag = "key", responses((status = 200, body = KeyList)))]
pub(crate) async fn list(State(app): State<AppState>) -> Result<Json<KeyList>, Refusal> {
    let keys = app.store.keys().of_connectors().await?;
    Ok(Json(KeyList { items: keys.into_iter().map(info).collect() }))
}

/// End a key: its next call is refused and its sockets are closed.
#[utoipa::path(post, path = "/api/v2/keys/revoke", tag = "key", request_body = KeyChoice, responses(
    (status = 200, body = KeyInfo), (status = 400, body = ErrorBody), (status = 404, body = ErrorBody),
))]
pub(crate) async fn revoke(
    State(app): State<AppState>,
    JsonBody(body): JsonBody,
) -> Result<Json<KeyInfo>, Refusal> {
    let mut fields = Fields::of(&body);
    let id_or_name = fields.name("key");
    fields.finish()?;
    let now = app.clock.now();
    let revoked =
        changed(&app, move |store| async move { store.keys().revoke(id_or_name, now).await }).await?;
    let revoked = revoked.ok_or_else(|| {
        Refusal::because(ErrorCode::NotFound, "no open key has this id or name; `cortex key list` shows them")
    })?;
    Ok(Json(info(revoked)))
}

/// Makes a change and puts it in force, one at a time and to the end, whether or not the client stays.
async fn changed<T, F, Fut>(app: &AppState, change: F) -> Result<T, Refusal>
where
    T: Send + 'static,
    F: FnOnce(Store) -> Fut + Send + 'static,
    Fut: Future<Output = Result<T, StoreError>> + Send,
{
    let app = app.clone();
    let work = tokio::spawn(async move {
        let _one_at_a_time = app.keys.changes.lock().await;
        let outcome = change(app.store.clone()).await?;
        app.keys.replace_connectors(app.store.keys().of_connectors().await?);
        app.connector_door.local.read_again().await?;
        Ok::<T, StoreError>(outcome)
    });
    match work.await {
        Ok(outcome) => Ok(outcome?),
        Err(error) => Err(Refusal::because(ErrorCode::InternalError, error.to_string())),
    }
}

/// 160 bits of the system's randomness.
fn new_key() -> String {
    let (secret, more): (u128, u32) = (rand::random(), rand::random());
    format!("ck_{secret:032x}{more:08x}")
}

fn info(key: ConnectorKey) -> KeyInfo {
    KeyInfo {
        id: key.id,
        name: key.name,
        source: key.source,
        prefix: key.prefix,
        created_at: key.created_at.into(),
        revoked_at: key.revoked_at.map(Into::into),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cortex_types::{SECRET_MASK, without_secrets};

    #[test]
    fn a_key_that_is_made_here_is_known_for_a_secret() {
        assert_eq!(without_secrets(&new_key()), SECRET_MASK);
    }
}
