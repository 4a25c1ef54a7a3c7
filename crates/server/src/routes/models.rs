//! `GET /v1/models`: the assistant first, then what the providers have.

use crate::json::Json;
use crate::load::Load;
use crate::openai::{ASSISTANT, OpenAiRefusal, unknown_model};
use crate::path_id::PathId;
use crate::refusal::Refusal;
use crate::state::AppState;
use axum::extract::State;
use cortex_api::{ModelCard, ModelCardList, OpenAiRefused};

/// The models that can be asked for.
#[utoipa::path(get, path = "/v1/models", tag = "openai", responses(
    (status = 200, body = ModelCardList), (status = 401, body = OpenAiRefused),
))]
pub(crate) async fn list(
    State(app): State<AppState>,
    load: Load,
) -> Result<Json<ModelCardList>, OpenAiRefusal> {
    Ok(Json(ModelCardList { object: "list".to_owned(), data: cards(&app, &load).await? }))
}

/// One of them.
#[utoipa::path(get, path = "/v1/models/{id}", tag = "openai", params(("id" = String, Path)), responses(
    (status = 200, body = ModelCard), (status = 401, body = OpenAiRefused), (status = 404, body = OpenAiRefused),
))]
pub(crate) async fn show(
    State(app): State<AppState>,
    load: Load,
    id: Result<PathId, Refusal>,
) -> Result<Json<ModelCard>, OpenAiRefusal> {
    let PathId(id) = id?;
    let found = cards(&app, &load).await?.into_iter().find(|card| card.id == id);
    found.map(Json).ok_or_else(|| unknown_model(app.models.get().map(|models| &**models), &id))
}

async fn cards(app: &AppState, load: &Load) -> Result<Vec<ModelCard>, OpenAiRefusal> {
    let created = app.started_at.0 / 1_000;
    let card = |id: String, owned_by: String| ModelCard { id, object: "model".to_owned(), created, owned_by };
    let mut cards = vec![card(ASSISTANT.to_owned(), ASSISTANT.to_owned())];
    if let Some(models) = app.models.get() {
        let room = load.answer();
        let listed = models.listed_models(&room).await.map_err(|_| Refusal::from(room.full()))?;
        let listed = listed.into_iter().filter(|model| model.id != ASSISTANT);
        cards.extend(listed.map(|model| card(model.id, model.provider)));
    }
    Ok(cards)
}
