//! The live bus: what happens right now, for whoever listens; at most once, never a delivery.

mod live;

pub use live::{Bus, EndHeard, EndListener, Heard, Listener, LiveNews};
