//! What a platform of the tests was asked, and what it is told to refuse.

use crate::bot_api::Planned;
use axum::body::{Body, Bytes};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use cortex_testkit::{Json, eventually};
use serde_json::Value;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};

#[derive(Clone, Default)]
pub(crate) struct Ledger(Arc<Mutex<Entries>>);

#[derive(Default)]
struct Entries {
    calls: Vec<(String, Value)>,
    plans: BTreeMap<String, VecDeque<Planned>>,
}

impl Ledger {
    /// The next call of this name goes wrong.
    pub(crate) fn plan(&self, name: &str, planned: Planned) {
        self.0.lock().unwrap().plans.entry(name.to_owned()).or_default().push_back(planned);
    }

    pub(crate) fn calls(&self, name: &str) -> Vec<Value> {
        let entries = self.0.lock().unwrap();
        entries.calls.iter().filter(|(called, _)| called == name).map(|(_, body)| body.clone()).collect()
    }

    /// The calls of this name, once there are so many.
    pub(crate) async fn after(&self, name: &str, count: usize) -> Vec<Value> {
        eventually(format!("{count} × {name}"), async || {
            let calls = self.calls(name);
            (calls.len() >= count).then_some(calls)
        })
        .await
    }

    /// Writes a call down; the answer, when it is not the usual one.
    pub(crate) async fn note(&self, name: &str, body: Value) -> Option<Response> {
        let planned = {
            let mut entries = self.0.lock().unwrap();
            entries.calls.push((name.to_owned(), body));
            entries.plans.get_mut(name).and_then(VecDeque::pop_front)
        };
        match planned? {
            Planned::Refusal(status, body) => {
                let wait = body["retry_after"].as_f64().map(|wait| [("retry-after", wait.to_string())]);
                Some((StatusCode::from_u16(status).unwrap(), wait, Json(body)).into_response())
            }
            Planned::Cut => {
                let broken = futures::stream::once(async { Err::<Bytes, _>(std::io::Error::other("cut")) });
                Some(Response::new(Body::from_stream(broken)))
            }
            Planned::Hold(released) => {
                released.notified().await;
                None
            }
        }
    }
}
