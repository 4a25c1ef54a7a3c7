//! The id in a path: one that cannot even be read names nothing, like one that is not there.

use crate::refusal::Refusal;
use axum::extract::{FromRequestParts, Path};
use cortex_api::ErrorCode;
use http::request::Parts;

pub(crate) struct PathId(pub(crate) String);

impl<S: Send + Sync> FromRequestParts<S> for PathId {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        let path = Path::<String>::from_request_parts(parts, state).await;
        path.map(|Path(id)| Self(id)).map_err(|_| Refusal::new(ErrorCode::NotFound))
    }
}
