//! An answer as JSON.

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use serde::Serialize;

/// axum's own needs its feature `json`, and with it the raw values of serde_json, which this program does not have.
#[derive(Debug, Clone)]
pub struct Json<T>(pub T);

impl<T: Serialize> IntoResponse for Json<T> {
    fn into_response(self) -> Response {
        match serde_json::to_vec(&self.0) {
            Ok(text) => {
                let json = HeaderValue::from_static("application/json");
                ([(header::CONTENT_TYPE, json)], Body::from(text)).into_response()
            }
            Err(error) => {
                tracing::error!(%error, "An answer could not be written as JSON");
                StatusCode::INTERNAL_SERVER_ERROR.into_response()
            }
        }
    }
}
