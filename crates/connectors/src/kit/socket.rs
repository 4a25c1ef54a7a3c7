//! A WebSocket to a platform: text in, text out, bounded in size.

use super::platform::PlatformError;
use futures::{SinkExt, StreamExt};
use reqwest::Url;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async_with_config};

const MESSAGE_BYTES_MAX: usize = 16 * 1024 * 1024;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(20);
const SAY_TIMEOUT: Duration = Duration::from_secs(20);

#[derive(Debug)]
pub(crate) struct Socket {
    stream: WebSocketStream<MaybeTlsStream<TcpStream>>,
}

/// What came over a socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Heard {
    Text(String),
    /// It is over; with the reason, when one was given.
    Closed(Option<u16>),
    /// Only a sign of life.
    Nothing,
}

impl Socket {
    pub(crate) async fn connect(url: &Url) -> Result<Self, PlatformError> {
        let config = WebSocketConfig::default()
            .max_message_size(Some(MESSAGE_BYTES_MAX))
            .max_frame_size(Some(MESSAGE_BYTES_MAX));
        let connecting = connect_async_with_config(url.as_str(), Some(config), false);
        let connected = tokio::time::timeout(CONNECT_TIMEOUT, connecting).await;
        let late = || PlatformError::Transient("the socket did not open in time".to_owned());
        let (stream, _) = connected.map_err(|_| late())?.map_err(|error| broken(&error))?;
        Ok(Self { stream })
    }

    /// The next thing. Dropping the future loses nothing.
    pub(crate) async fn hear(&mut self) -> Result<Heard, PlatformError> {
        match self.stream.next().await {
            Some(Ok(Message::Text(text))) => Ok(Heard::Text(text.to_string())),
            Some(Ok(Message::Close(frame))) => Ok(Heard::Closed(frame.map(|frame| frame.code.into()))),
            Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Binary(_) | Message::Frame(_))) => {
                Ok(Heard::Nothing)
            }
            Some(Err(error)) => Err(broken(&error)),
            None => Ok(Heard::Closed(None)),
        }
    }

    pub(crate) async fn say(&mut self, text: String) -> Result<(), PlatformError> {
        let saying = tokio::time::timeout(SAY_TIMEOUT, self.stream.send(Message::text(text)));
        let late = || PlatformError::Transient("the socket takes nothing any more".to_owned());
        saying.await.map_err(|_| late())?.map_err(|error| broken(&error))
    }
}

fn broken(error: &tokio_tungstenite::tungstenite::Error) -> PlatformError {
    PlatformError::Transient(format!("the socket broke: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::TcpListener;

    #[tokio::test]
    async fn an_encrypted_socket_to_somebody_who_is_none_is_an_error_and_nothing_worse() {
        // As the command line does at its start.
        rustls::crypto::ring::default_provider().install_default().unwrap_or_default();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = Url::parse(&format!("wss://{}/", listener.local_addr().unwrap())).unwrap();
        let hang_up = async { drop(listener.accept().await.unwrap()) };
        let (connected, ()) = tokio::join!(Socket::connect(&url), hang_up);
        let told = connected.unwrap_err().to_string();
        assert!(told.starts_with("the socket broke: "), "{told}");
    }
}
