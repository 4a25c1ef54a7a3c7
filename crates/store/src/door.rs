//! Who may come in: keys and connectors.

pub(crate) mod connector;
pub(crate) mod key;
