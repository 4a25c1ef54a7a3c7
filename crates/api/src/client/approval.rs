//! The client's side of `/api/v2/approvals` and `/api/v2/grants`.

use super::{Client, ClientError};
use crate::{ApprovalList, ApprovalQuery, ApprovalRow, GrantAnswer, GrantList, GrantQuery, GrantRequest};
use cortex_types::{ApprovalId, GrantId};

impl Client {
    pub async fn approvals(&self, query: &ApprovalQuery) -> Result<ApprovalList, ClientError> {
        self.get("/api/v2/approvals", query).await
    }

    pub async fn approval(&self, id: &ApprovalId) -> Result<ApprovalRow, ClientError> {
        self.get(&format!("/api/v2/approvals/{id}"), &()).await
    }

    /// Lets the call run. The first answer wins; a later one is a conflict.
    pub async fn approve(&self, id: &ApprovalId) -> Result<ApprovalRow, ClientError> {
        self.command(&format!("/api/v2/approvals/{id}/approve")).await
    }

    pub async fn deny(&self, id: &ApprovalId) -> Result<ApprovalRow, ClientError> {
        self.command(&format!("/api/v2/approvals/{id}/deny")).await
    }

    /// Allows exactly the call of this approval again for a while.
    pub async fn grant(&self, id: &ApprovalId, request: &GrantRequest) -> Result<GrantAnswer, ClientError> {
        self.post(&format!("/api/v2/approvals/{id}/grant"), request).await
    }

    pub async fn grants(&self, query: &GrantQuery) -> Result<GrantList, ClientError> {
        self.get("/api/v2/grants", query).await
    }

    pub async fn revoke_grant(&self, id: &GrantId) -> Result<(), ClientError> {
        self.silent_command(&format!("/api/v2/grants/{id}/revoke")).await
    }
}
