//! What the product is compared with: the same work with a part left out, or done the usual way.

mod echo;
mod naive;
mod raw_rows;

pub(crate) use echo::{ECHO_CONNECTOR, ECHO_INGEST, echo_routes};
pub(crate) use naive::{NAIVE_INGEST, naive_routes};
pub(crate) use raw_rows::RawRows;
