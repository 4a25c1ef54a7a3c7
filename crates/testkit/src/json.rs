//! JSON in and out of servers that tests make themselves.

use axum::body::Bytes;
use axum::extract::{FromRequest, Request};
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// axum's own would turn on raw values in serde_json for the program under test, which does not have them.
#[derive(Debug, Clone)]
pub struct Json<T>(pub T);

impl<T: Serialize> IntoResponse for Json<T> {
    fn into_response(self) -> Response {
        cortex_server::Json(self.0).into_response()
    }
}

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Json<T> {
    type Rejection = StatusCode;

    async fn from_request(request: Request, state: &S) -> Result<Self, StatusCode> {
        let body = Bytes::from_request(request, state).await.map_err(|_| StatusCode::BAD_REQUEST)?;
        serde_json::from_slice(&body).map(Self).map_err(|_| StatusCode::UNPROCESSABLE_ENTITY)
    }
}
