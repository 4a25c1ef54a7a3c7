//! The board on which whoever runs the connectors writes how they are; the server only shows it.

use cortex_api::ConnectorRow;
use std::collections::BTreeMap;
use tokio::sync::watch;

/// How each connector is, by name.
#[derive(Debug, Clone)]
pub struct ConnectorBoard(watch::Sender<BTreeMap<String, ConnectorRow>>);

impl Default for ConnectorBoard {
    fn default() -> Self {
        Self(watch::Sender::new(BTreeMap::new()))
    }
}

impl ConnectorBoard {
    /// Puts a connector's row in the place of its last one.
    pub fn write(&self, row: ConnectorRow) {
        self.0.send_modify(|rows| drop(rows.insert(row.name.clone(), row)));
    }

    pub(crate) fn rows(&self) -> Vec<ConnectorRow> {
        self.0.borrow().values().cloned().collect()
    }
}
