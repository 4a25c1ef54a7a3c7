//! What every room stands on: opening, the one writer, the readers, migrations, the log, and what tells damage.

pub(crate) mod audit;
pub(crate) mod backup;
pub(crate) mod capacity;
pub(crate) mod checksum;
pub(crate) mod checkup;
pub(crate) mod health;
pub(crate) mod home_lock;
pub(crate) mod integrity;
pub(crate) mod listing;
pub(crate) mod migrate;
pub(crate) mod open;
pub(crate) mod reader;
pub(crate) mod row;
pub(crate) mod savepoint;
pub(crate) mod wal;
pub(crate) mod writer;
