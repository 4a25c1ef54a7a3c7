//! The connectors' door: CloudEvents over a WebSocket, on the same inbox and outbox as every other door (seed 003).

use crate::auth::{Caller, OwnerDoor};
use crate::client_connection::ClientConnection;
use crate::refusal::Refusal;
use crate::share::{Kind, Place, Share};
use crate::speaker;
use crate::state::AppState;
use axum::extract::ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade};
use axum::response::Response;
use cortex_api::ErrorCode;
use cortex_api::{CLOSE_SESSION, CLOSE_TRY_LATER, SUBPROTOCOL, random_uuid};
use cortex_store::{ConnectorBinding, ConnectorSession, SessionOpener, Store, StoreError};
use cortex_types::Clock;
use cortex_types::limits::BODY_BYTES_MAX;
use metrics::gauge;
use sha2::{Digest, Sha256};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

mod answer;
mod asker;
mod dispatch;
mod frame;
mod heard;
mod hub;
mod local;
mod preview;
mod receipt;
mod recent;
mod room;
mod socket;

pub(crate) use hub::{Hub, HubParts};
pub(crate) use local::LocalConnectors;
use recent::RecentAnswers;

/// Sessions that are checked at once; others wait for their turn.
const HANDSHAKES_MAX: usize = 32;
/// Sockets without a good session that are open until they have read why; a further one is refused unopened.
const REFUSED_MAX: usize = 32;
/// Sockets open at once: as many as the shares of the owner, of connectors and of strangers have together, so that none of
/// them takes another's place here.
const SOCKETS_MAX: usize = 3 * 4_096;
/// How long the check of a session may take, and the wait for it.
const HANDSHAKE_MAX: Duration = Duration::from_secs(5);
/// How long a socket that is refused may take to go.
const REFUSED_GOODBYE_MAX: Duration = Duration::from_secs(1);
/// Over the limit a frame is still read to its end, so that the refusal reaches who sent it; over this it is not.
const FRAME_BYTES_HARD_MAX: usize = 2 * BODY_BYTES_MAX;
/// Frames that are written together; every batch is flushed.
const WRITE_AT_ONCE_BYTES: usize = 32 * 1024;
/// Small, because most sockets are idle.
const SOCKET_BUFFER_BYTES: usize = 4 * 1024;

/// The door's own state.
pub(crate) struct ConnectorDoor {
    pub(crate) hub: Hub,
    /// Connectors that come without a key.
    pub(crate) local: LocalConnectors,
    recent: RecentAnswers,
    handshakes: Semaphore,
    refused: Arc<Semaphore>,
    places: Arc<Semaphore>,
}

impl ConnectorDoor {
    pub(crate) async fn assemble(
        hub: Hub,
        store: &Store,
        clock: &Arc<dyn Clock>,
    ) -> Result<Self, StoreError> {
        Ok(Self {
            hub,
            local: LocalConnectors::read(store.clone(), Arc::clone(clock)).await?,
            recent: RecentAnswers::default(),
            handshakes: Semaphore::new(HANDSHAKES_MAX),
            refused: Arc::new(Semaphore::new(REFUSED_MAX)),
            places: Arc::new(Semaphore::new(SOCKETS_MAX)),
        })
    }

    /// Waits until every socket is gone.
    pub(crate) async fn all_left(&self) {
        // The semaphore is never closed.
        drop(self.places.acquire_many(SOCKETS_MAX as u32).await);
    }
}

/// What a connector says about its socket.
pub(crate) struct Wants {
    pub(crate) connector_id: Option<String>,
    pub(crate) stream: bool,
    pub(crate) ack: bool,
    pub(crate) receipts: bool,
    /// Who it says it is, beside the session.
    pub(crate) brings: Option<Caller>,
    pub(crate) peer: IpAddr,
    pub(crate) connection: Arc<ClientConnection>,
}

/// Opens a session and gives its id, which is kept only as a digest.
pub(crate) async fn open_session(
    app: &AppState,
    caller: &Caller,
    connector_id: Option<String>,
) -> Result<String, Refusal> {
    let id = random_uuid(rand::random());
    let known = known_binding(app, caller, connector_id).await?;
    let forbidden = |why| Refusal::because(ErrorCode::Forbidden, why);
    let binding = known.transpose().map_err(forbidden)?;
    let session = ConnectorSession { opener: opener(app, caller)?, binding };
    app.store.connectors().open_session(digest(&id), session, app.clock.now()).await?;
    Ok(id)
}

/// What opens a session, and has to be there as long as it lasts.
fn opener(app: &AppState, caller: &Caller) -> Result<SessionOpener, Refusal> {
    Ok(match caller {
        Caller::Owner(door) => {
            let digest = app.keys.digest_of(*door);
            SessionOpener::Owner(digest.ok_or_else(|| Refusal::new(ErrorCode::Unauthorized))?)
        }
        Caller::Connector(key) => SessionOpener::Key(key.id.clone()),
        Caller::Anybody => SessionOpener::Nobody,
    })
}

/// Checks the session, then upgrades the connection in any case: the refusal is a close code.
pub(crate) async fn open_socket(
    app: AppState,
    upgrade: WebSocketUpgrade,
    session: String,
    wants: Wants,
) -> Result<Response, Refusal> {
    let door = &app.connector_door;
    let later = || Refusal::new(ErrorCode::TooManyRequests).retry_after(Duration::from_secs(1));
    // First come, first checked: whoever comes with many bogus sessions is in front of an honest one only once.
    let handshake = tokio::time::timeout(HANDSHAKE_MAX, door.handshakes.acquire()).await;
    let handshake = handshake.map_err(|_| later())?;
    let admitted = admit(&app, &session, &wants).await;
    drop(handshake);
    let upgrade = upgrade
        .read_buffer_size(SOCKET_BUFFER_BYTES)
        .write_buffer_size(WRITE_AT_ONCE_BYTES)
        .max_message_size(FRAME_BYTES_HARD_MAX)
        .max_frame_size(FRAME_BYTES_HARD_MAX)
        .protocols([SUBPROTOCOL]);
    match admitted {
        Ok(admitted) => {
            Ok(upgrade.on_upgrade(move |socket| socket::Socket::new(app, socket, admitted, &wants).serve()))
        }
        Err(refused) => {
            let place = Arc::clone(&door.refused).try_acquire_owned().map_err(|_| later())?;
            Ok(upgrade.on_upgrade(move |socket| async move {
                close(socket, refused.code, refused.reason).await;
                drop(place);
            }))
        }
    }
}

/// Counts a socket in the metrics, until it is dropped.
struct Counted;

impl Counted {
    fn begin() -> Self {
        gauge!("cortex_connector_sockets").increment(1.0);
        Self
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        gauge!("cortex_connector_sockets").decrement(1.0);
    }
}

/// A session whose socket may speak.
struct Admitted {
    sha256: [u8; 32],
    session: ConnectorSession,
    /// Whoever opened the session.
    caller: Caller,
    share: Arc<Share>,
    /// Among all sockets, and among those of its caller.
    places: Option<(OwnedSemaphorePermit, Place)>,
}

struct Closed {
    code: u16,
    reason: &'static str,
}

async fn admit(app: &AppState, id: &str, wants: &Wants) -> Result<Admitted, Closed> {
    let checked = tokio::time::timeout(HANDSHAKE_MAX, check_session(app, id, wants)).await;
    let busy = Closed { code: CLOSE_TRY_LATER, reason: "the server is busy; try again later" };
    let Ok(Ok(checked)) = checked else { return Err(busy) };
    let unknown = "this session is unknown or over; get a new one from GET /connector";
    let mut admitted = checked.ok_or(Closed { code: CLOSE_SESSION, reason: unknown })?;
    let place = Arc::clone(&app.connector_door.places).try_acquire_owned().ok();
    admitted.places = place.zip(admitted.share.place(Kind::Socket).ok());
    if admitted.places.is_some() { Ok(admitted) } else { Err(busy) }
}

async fn check_session(app: &AppState, id: &str, wants: &Wants) -> Result<Option<Admitted>, StoreError> {
    let (sha256, now) = (digest(id), app.clock.now());
    let Some(mut session) = app.store.connectors().use_session(sha256, now).await? else { return Ok(None) };
    let caller = match &session.opener {
        SessionOpener::Nobody => Some(Caller::Anybody),
        SessionOpener::Owner(key) => app.keys.is_owners(key).then_some(Caller::Owner(OwnerDoor::Socket)),
        SessionOpener::Key(key) => app.keys.connector(key).map(Caller::Connector),
    };
    // A session ends with what opened it.
    let Some(caller) = caller else { return Ok(None) };
    if wants.brings.as_ref().is_some_and(|brought| brought.key_id() != session.opener.key()) {
        return Ok(None);
    }
    // A name that is refused is told with the first event.
    if session.binding.is_none()
        && let Some(Ok(binding)) = known_binding(app, &caller, wants.connector_id.clone()).await?
    {
        session.binding = app.store.connectors().bind_session(sha256, binding, now).await?;
    }
    let share = app.shares.of(&caller, wants.peer);
    Ok(Some(Admitted { sha256, session, caller, share, places: None }))
}

/// Who a session speaks for before its first event: known when the connector was heard before, or when its key says
/// which source it is. An error says why a key may not use the name.
async fn known_binding(
    app: &AppState,
    caller: &Caller,
    connector_id: Option<String>,
) -> Result<Option<Result<ConnectorBinding, String>>, StoreError> {
    let settings = app.runtime.channels().settings();
    let known = match caller {
        Caller::Connector(key) => {
            let learned = settings.sources.get(&key.source).cloned();
            connector_id.or(learned).map(|connector_id| (connector_id, key.source.clone()))
        }
        Caller::Owner(_) => connector_id.and_then(|connector_id| {
            let mut sources = settings.sources.iter();
            let source = sources.find(|(_, channel)| **channel == connector_id)?.0.clone();
            Some((connector_id, source))
        }),
        Caller::Anybody => connector_id.and_then(|connector_id| {
            let source = app.connector_door.local.source_of(&connector_id)?;
            Some((connector_id, source))
        }),
    };
    let Some((connector_id, source)) = known else { return Ok(None) };
    let claim = ConnectorBinding { connector_id, source };
    let speaker = match (speaker::of_socket(app, caller, &claim), caller) {
        (Ok(speaker), _) => speaker,
        (Err(why), Caller::Connector(_)) => return Ok(Some(Err(why))),
        (Err(_), Caller::Owner(_) | Caller::Anybody) => return Ok(None),
    };
    let checked = app.runtime.channels().check_name(&speaker).await?;
    Ok(Some(checked.map(|()| claim).map_err(|refusal| refusal.to_string())))
}

async fn close(mut socket: WebSocket, code: u16, reason: &'static str) {
    let frame = CloseFrame { code, reason: reason.into() };
    // Who has gone away already need not be told.
    let goodbye = async {
        drop(socket.send(Message::Close(Some(frame))).await);
        while let Some(Ok(_)) = socket.recv().await {}
    };
    drop(tokio::time::timeout(REFUSED_GOODBYE_MAX, goodbye).await);
}

fn digest(session: &str) -> [u8; 32] {
    Sha256::digest(session.to_ascii_lowercase().as_bytes()).into()
}
