//! Keys of connectors.

use super::{Client, ClientError};
use crate::{
    KeyChoice, KeyInfo, KeyList, KeyRequest, LocalConnectorRow, NewKey, TrustRequest, UntrustRequest,
};

impl Client {
    pub async fn create_key(&self, request: &KeyRequest) -> Result<NewKey, ClientError> {
        self.post("/api/v2/keys", request).await
    }

    pub async fn keys(&self) -> Result<KeyList, ClientError> {
        self.get("/api/v2/keys", &()).await
    }

    /// Lets a connector without a key use its source.
    pub async fn trust_connector(&self, request: &TrustRequest) -> Result<LocalConnectorRow, ClientError> {
        self.post("/api/v2/connectors/trust", request).await
    }

    /// Trusts a connector without a key no longer.
    pub async fn untrust_connector(&self, connector_id: &str) -> Result<LocalConnectorRow, ClientError> {
        let request = UntrustRequest { connector_id: connector_id.to_owned() };
        self.post("/api/v2/connectors/untrust", &request).await
    }

    /// Forgets a connector without a key, until it comes again.
    pub async fn forget_connector(&self, connector_id: &str) -> Result<LocalConnectorRow, ClientError> {
        let request = UntrustRequest { connector_id: connector_id.to_owned() };
        self.post("/api/v2/connectors/forget", &request).await
    }

    /// Ends the key with this id or name.
    pub async fn revoke_key(&self, id_or_name: &str) -> Result<KeyInfo, ClientError> {
        self.post("/api/v2/keys/revoke", &KeyChoice { key: id_or_name.to_owned() }).await
    }
}
