//! The compactor: idle conversations become summaries.

use super::{Garden, GardenerError};

impl Garden {
    pub(super) async fn compact(&self) -> Result<String, GardenerError> {
        Ok("0 conversations summarised".to_owned())
    }
}
