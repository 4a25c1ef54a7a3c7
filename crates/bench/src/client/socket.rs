//! A WebSocket as a connector holds it: a session, then frames and their answers.

use super::{Connection, Target};
use crate::BenchError;
use futures::{SinkExt, StreamExt};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::http::HeaderValue;
use tokio_tungstenite::tungstenite::http::header::AUTHORIZATION;
use tokio_tungstenite::{WebSocketStream, client_async};

pub(crate) struct Socket(WebSocketStream<TcpStream>);

impl Socket {
    /// A new session of the connectors' door and its socket.
    pub(crate) async fn of_session(target: &Target) -> Result<Self, BenchError> {
        let mut connection = Connection::open(target.clone()).await?;
        let answer = connection.get("/connector").await?;
        if answer.status != 200 {
            return Err(answer.wrong("a session"));
        }
        let session = String::from_utf8_lossy(answer.body).into_owned();
        Self::open(target, &format!("/connector/{session}")).await
    }

    pub(crate) async fn open(target: &Target, path: &str) -> Result<Self, BenchError> {
        let refused =
            |error: tokio_tungstenite::tungstenite::Error| BenchError::Broken(format!("no socket: {error}"));
        let mut request = format!("ws://{}{path}", target.address).into_client_request().map_err(refused)?;
        if !target.key.is_empty()
            && let Ok(key) = HeaderValue::from_str(&format!("Bearer {}", target.key))
        {
            request.headers_mut().insert(AUTHORIZATION, key);
        }
        let stream = TcpStream::connect(target.address).await?;
        stream.set_nodelay(true)?;
        let (socket, _) = client_async(request, stream).await.map_err(refused)?;
        Ok(Self(socket))
    }

    /// Sends a frame and waits for the next one.
    pub(crate) async fn exchange(&mut self, frame: &str) -> Result<String, BenchError> {
        let broken = |why: &dyn std::fmt::Display| BenchError::Broken(format!("a socket broke: {why}"));
        self.0.send(Message::text(frame)).await.map_err(|error| broken(&error))?;
        loop {
            match self.0.next().await {
                Some(Ok(Message::Text(text))) => return Ok(text.to_string()),
                Some(Ok(Message::Close(frame))) => return Err(broken(&format!("closed: {frame:?}"))),
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(broken(&error)),
                None => return Err(broken(&"it ended")),
            }
        }
    }
}
