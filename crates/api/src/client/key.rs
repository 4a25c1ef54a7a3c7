//! Keys of connectors.

use super::{Client, ClientError};
use crate::{KeyChoice, KeyInfo, KeyList, KeyRequest, NewKey};

impl Client {
    pub async fn create_key(&self, request: &KeyRequest) -> Result<NewKey, ClientError> {
        self.post("/api/v2/keys", request).await
    }

    pub async fn keys(&self) -> Result<KeyList, ClientError> {
        self.get("/api/v2/keys", &()).await
    }

    /// Ends the key with this id or name.
    pub async fn revoke_key(&self, id_or_name: &str) -> Result<KeyInfo, ClientError> {
        self.post("/api/v2/keys/revoke", &KeyChoice { key: id_or_name.to_owned() }).await
    }
}
