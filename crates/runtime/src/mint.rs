//! New ids: the clock's time and the system's randomness.

use cortex_types::{EventId, Millis, OutboxId};
use ulid::Ulid;

pub(crate) fn event_id(now: Millis) -> EventId {
    EventId::from_ulid(ulid_at(now))
}

pub(crate) fn outbox_id(now: Millis) -> OutboxId {
    OutboxId::new_at(now, rand::random())
}

pub(crate) fn ulid_at(now: Millis) -> Ulid {
    Ulid::from_parts(u64::try_from(now.0).unwrap_or(0), rand::random())
}
