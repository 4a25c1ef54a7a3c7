//! An embedding model behind OpenAI's wire: what is asked, what is taken, and what is refused.

use crate::far_side::{FarSide, error, response};
use crate::setup::{START, config};
use cortex_models::{Embedder, EmbeddingSettings};
use cortex_testkit::Aimock;
use cortex_types::ManualClock;
use serde_json::json;
use std::sync::Arc;

const KEY: &str = "sk-secret-0123456789";

fn embedder(url: &str, dims: Option<u32>) -> Embedder {
    let settings = EmbeddingSettings {
        base_url: url.to_owned(),
        api_key: Some(KEY.into()),
        model: "text-embedding-3-small".to_owned(),
        dims,
    };
    Embedder::remote(settings, config().client, Arc::new(ManualClock::starting_at(START))).unwrap()
}

#[tokio::test]
async fn the_vectors_come_in_the_order_of_the_texts_and_have_length_one() {
    let body =
        json!({ "data": [{ "index": 1, "embedding": [0.0, 2.0] }, { "index": 0, "embedding": [3.0, 4.0] }] });
    let far = FarSide::saying(response("200 OK", "application/json", "", &body.to_string())).await;
    let embedder = embedder(&far.url, Some(2));
    let vectors = embedder.embed(&["first", "second"]).await.unwrap();
    assert_eq!(vectors, [[0.6, 0.8], [0.0, 1.0]]);
    assert_eq!(embedder.name(), "text-embedding-3-small@2");
    let asked = far.received().remove(0);
    assert_eq!(asked.line(), "POST /v1/embeddings HTTP/1.1");
    assert_eq!(asked.header("authorization"), Some(format!("Bearer {KEY}").as_str()));
    let expected = json!({ "model": "text-embedding-3-small", "input": ["first", "second"],
        "encoding_format": "float", "dimensions": 2 });
    assert_eq!(asked.body, expected);
}

#[tokio::test]
async fn an_answer_that_is_no_vector_for_each_text_is_refused() {
    for body in [
        json!({ "data": [{ "index": 0, "embedding": [1.0] }] }),
        json!({ "data": [{ "index": 0, "embedding": [1.0] }, { "index": 0, "embedding": [1.0] }] }),
        json!({ "data": [{ "index": 0, "embedding": [1.0] }, { "index": 1, "embedding": [1.0, 2.0] }] }),
        json!({ "data": [{ "index": 0, "embedding": [] }, { "index": 1, "embedding": [] }] }),
        json!({ "vectors": [] }),
    ] {
        let far = FarSide::saying(response("200 OK", "application/json", "", &body.to_string())).await;
        let refused = embedder(&far.url, None).embed(&["one", "two"]).await.unwrap_err().to_string();
        assert!(refused.contains("malformed"), "{body}: {refused}");
    }
}

#[tokio::test]
async fn a_refused_key_is_told_without_the_key() {
    let far = FarSide::saying(error("401 Unauthorized", "", &format!("bad key {KEY}"))).await;
    let told = embedder(&far.url, None).embed(&["one"]).await.unwrap_err().to_string();
    assert!(told.contains("401") && !told.contains(KEY), "{told}");
}

#[tokio::test]
async fn a_third_partys_fake_gives_vectors() {
    let Some(fake) = Aimock::start(&json!([])).unwrap() else { return };
    let embedder = embedder(fake.url(), None);
    let vectors = embedder.embed(&["the same", "another", "the same"]).await.unwrap();
    assert_eq!(vectors[0], vectors[2]);
    assert_ne!(vectors[0], vectors[1]);
    let length: f32 = vectors[0].iter().map(|part| part * part).sum();
    assert!((length - 1.0).abs() < 1e-4);
}
