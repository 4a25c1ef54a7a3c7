//! Speakers of this server: decided once, from the credential of a request or socket.

use crate::auth::Caller;
use crate::refusal::Refusal;
use crate::state::AppState;
use cortex_api::ErrorCode;
use cortex_store::ConnectorBinding;
use cortex_types::{Speaker, is_local, is_reserved_source};

/// Who speaks in a request that names this source.
pub(crate) fn of_request(caller: &Caller, source: &str) -> Result<Speaker, Refusal> {
    caller.may_use(source)?;
    let forbidden = |detail: &str| Err(Refusal::because(ErrorCode::Forbidden, detail));
    match caller {
        Caller::Owner(_) if is_local(source) => {
            forbidden("sources that begin with local: belong to connectors without a key")
        }
        Caller::Owner(_) => Ok(Speaker::owner(source)),
        Caller::Connector(_) if is_reserved_source(source) => {
            forbidden("this source belongs to the server; make a key for another one")
        }
        Caller::Connector(_) => Ok(Speaker::key(source)),
        Caller::Anybody => Err(Refusal::new(ErrorCode::Unauthorized)),
    }
}

/// Who speaks over a socket whose connector names itself so; an error says in words why it may not.
pub(crate) fn of_socket(
    app: &AppState,
    caller: &Caller,
    claim: &ConnectorBinding,
) -> Result<Speaker, String> {
    let ConnectorBinding { connector_id, source } = claim;
    match caller {
        Caller::Connector(key) if key.source != *source => {
            Err(format!("this key may only use the source {}", key.source))
        }
        Caller::Owner(_) | Caller::Connector(_) if is_local(source) || is_local(connector_id) => {
            Err("names that begin with local: belong to connectors without a key".to_owned())
        }
        Caller::Connector(_) if is_reserved_source(source) => {
            Err("this source belongs to the server; make a key for another one".to_owned())
        }
        Caller::Connector(_) => Ok(Speaker::key(source.as_str()).on_channel(connector_id)),
        Caller::Owner(_) => Ok(Speaker::owner(source.as_str()).on_channel(connector_id)),
        Caller::Anybody if app.keys.guards(source) => {
            Err(format!("the source {source} has a key of its own; open the session with it"))
        }
        Caller::Anybody => app.connector_door.local.speaker(connector_id, source),
    }
}
