//! Clients that post new events as fast as they are answered, and look at every answer.

use super::{Answer, Connection, Target, on_client_thread};
use crate::BenchError;
use crate::sample::Load;
use futures::future::try_join_all;
use std::cell::Cell;
use std::io::Write;
use std::time::{Duration, Instant};

/// Conversations the events are spread over.
const TOPICS: usize = 64;
const EVENT_ID_BYTES: usize = 30;

/// A closed loop of `connections` clients against one route.
#[derive(Debug, Clone)]
pub(crate) struct IngestLoad {
    pub(crate) target: Target,
    pub(crate) route: &'static str,
    pub(crate) connections: usize,
    pub(crate) time: Duration,
    /// Makes the events of this load new; no two loads of a run share one.
    pub(crate) series: u32,
}

impl IngestLoad {
    pub(crate) fn run(&self) -> Result<Load, BenchError> {
        on_client_thread(|| async {
            let opening = (0..self.connections).map(|_| Connection::open(self.target.clone()));
            let connections = try_join_all(opening).await?;
            // One rising number for all, as a channel counts its messages.
            let next_id = Cell::new(0);
            let started = Instant::now();
            let deadline = started + self.time;
            let clients = connections.into_iter().enumerate().map(|(number, connection)| {
                self.post_until(connection, format!("chat-{}", number % TOPICS), &next_id, deadline)
            });
            let times = try_join_all(clients).await?.concat();
            Ok(Load::of(times, started.elapsed()))
        })
    }

    async fn post_until(
        &self,
        mut connection: Connection,
        topic: String,
        next_id: &Cell<u64>,
        deadline: Instant,
    ) -> Result<Vec<Duration>, BenchError> {
        let mut times = Vec::new();
        let mut body = Vec::new();
        loop {
            let started = Instant::now();
            if started >= deadline {
                return Ok(times);
            }
            next_id.set(next_id.get() + 1);
            let external_id = format!("{:06}-{:09}", self.series, next_id.get());
            event_body(&mut body, "bench", &topic, &external_id, "Remind me every weekday at nine, please")?;
            let answer = connection.post(self.route, &body).await?;
            if !is_event_accepted(&answer) {
                return Err(answer.wrong("202 and an event id"));
            }
            times.push(started.elapsed());
        }
    }
}

/// The body of an event in the shape of the seed's sample. The parts must need no escaping.
pub(crate) fn event_body(
    body: &mut Vec<u8>,
    source: &str,
    topic: &str,
    external_id: &str,
    text: &str,
) -> std::io::Result<()> {
    body.clear();
    write!(
        body,
        r#"{{"source":"{source}","externalMessageId":"{external_id}","idempotencyKey":"{source}:{external_id}","topicKey":"{topic}","userId":"user-998877","text":"{text}","occurredAt":"2026-02-15T20:30:00Z","metadata":{{"chatId":"-100123","threadId":"9"}}}}"#
    )
}

/// Whether the answer is a 202 that names a new event.
pub(crate) fn is_event_accepted(answer: &Answer<'_>) -> bool {
    let id = answer.body.strip_prefix(br#"{"eventId":"evt_"#);
    let ends_there = |id: &[u8]| id.get(EVENT_ID_BYTES - 4) == Some(&b'"');
    answer.status == 202 && id.is_some_and(ends_there)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_202_with_an_event_id_counts() {
        let good = br#"{"eventId":"evt_01J00000000000000000000000","status":"queued"}"#;
        assert!(is_event_accepted(&Answer { status: 202, body: good }));
        assert!(!is_event_accepted(&Answer { status: 200, body: good }));
        assert!(!is_event_accepted(&Answer { status: 202, body: b"{}" }));
        assert!(!is_event_accepted(&Answer {
            status: 202,
            body: br#"{"eventId":"evt_","status":"queued"}"#
        }));
    }

    #[test]
    fn the_body_is_what_the_server_reads_as_an_event() {
        let mut body = Vec::new();
        event_body(&mut body, "bench", "chat-1", "0001-000-0000000", "hello").unwrap();
        let body = serde_json::from_slice(&body).unwrap();
        assert_eq!(cortex_server::read_event(&body).unwrap().1.topic_key, "chat-1");
    }
}
