//! What is heard on a socket: frames are taken, paid for out of the caller's rate, and counted when nobody can read them.

use crate::client_connection::ClientConnection;
use crate::share::Share;
use axum::extract::ws::{Message, Utf8Bytes};
use cortex_api::{CLOSE_POLICY, CLOSE_TOO_BIG, CLOSE_TRY_LATER};
use cortex_types::limits::BODY_BYTES_MAX;
use std::time::Duration;
use tokio::time::{Instant, sleep_until};

/// How long a socket whose caller has used up its rate waits for more of it; shorter than a revoked key may live on.
const OVER_RATE_PAUSE: Duration = Duration::from_millis(500);
/// Frames in a row that nobody can read, after which a socket is closed.
const BAD_FRAMES_MAX: usize = 100;

/// Why a socket ends.
pub(super) enum End {
    /// The other side went, or the line broke.
    Gone,
    Close {
        code: u16,
        reason: &'static str,
    },
}

impl End {
    pub(super) const TOO_SLOW: Self =
        Self::Close { code: CLOSE_TRY_LATER, reason: "this reader is too slow" };
}

/// How many of the frames that came together the caller's rate reached for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Paid {
    All,
    Only { frames: usize, wait: Duration },
}

impl Paid {
    /// How long an event should have waited that came at this place.
    pub(super) fn wait_of(self, place: usize) -> Option<Duration> {
        match self {
            Self::All => None,
            Self::Only { frames, wait } => (place >= frames).then_some(wait),
        }
    }
}

/// Takes so many frames out of the caller's rate, whatever they turn out to be. Where it does not reach, the caller waits a
/// while for more: meanwhile nothing more is read of the socket, and its frames count as being in hand.
pub(super) async fn pay(share: &Share, count: usize) -> Paid {
    let give_up_at = Instant::now() + OVER_RATE_PAUSE;
    let mut frames = 0;
    while frames < count {
        match share.spend() {
            Ok(_) => frames += 1,
            Err(spent) => {
                let wait = spent.wait.unwrap_or_default();
                if Instant::now() >= give_up_at {
                    return Paid::Only { frames, wait };
                }
                sleep_until(give_up_at.min(Instant::now() + wait)).await;
            }
        }
    }
    Paid::All
}

/// Frames in a row that nobody can read.
#[derive(Debug, Default)]
pub(super) struct BadFrames(usize);

impl BadFrames {
    /// One more came; too many in a row are the last ones.
    pub(super) fn count(&mut self, is_bad: bool) -> Result<(), End> {
        self.0 = if is_bad { self.0 + 1 } else { 0 };
        if self.0 < BAD_FRAMES_MAX {
            return Ok(());
        }
        Err(End::Close { code: CLOSE_POLICY, reason: "100 frames in a row could not be read" })
    }
}

pub(super) fn take_frame(
    connection: &ClientConnection,
    heard: Option<Result<Message, axum::Error>>,
    frames: &mut Vec<Utf8Bytes>,
) -> Result<(), End> {
    let too_big = End::Close { code: CLOSE_TOO_BIG, reason: "a frame may have at most 1 MiB" };
    match heard {
        None | Some(Ok(Message::Close(_))) => Err(End::Gone),
        Some(Ok(Message::Text(text))) if text.len() > BODY_BYTES_MAX => Err(too_big),
        Some(Ok(Message::Binary(bytes))) if bytes.len() > BODY_BYTES_MAX => Err(too_big),
        Some(Ok(Message::Text(text))) => {
            connection.is_whole(text.len());
            frames.push(text);
            Ok(())
        }
        Some(Ok(Message::Binary(bytes))) => {
            connection.is_whole(bytes.len());
            // What is no text is no JSON either, and is told so.
            frames.push(Utf8Bytes::try_from(bytes).unwrap_or_else(|_| Utf8Bytes::from_static("\u{fffd}")));
            Ok(())
        }
        Some(Ok(Message::Ping(payload) | Message::Pong(payload))) => {
            connection.is_control(payload.len());
            Ok(())
        }
        Some(Err(error)) if error.to_string().contains("too long") => Err(too_big),
        Some(Err(_)) => Err(End::Gone),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::Caller;
    use crate::share::{CallerLimits, Shares};
    use std::net::Ipv4Addr;

    #[tokio::test(start_paused = true)]
    async fn every_frame_is_paid_for_and_a_caller_without_rate_waits() {
        let limits = CallerLimits { keyless_per_minute: 40, ..CallerLimits::default() };
        let share = Shares::new(limits).of(&Caller::Anybody, Ipv4Addr::LOCALHOST.into());
        assert_eq!(pay(&share, 30).await, Paid::All);
        let before = Instant::now();
        let paid = pay(&share, 30).await;
        assert_eq!(before.elapsed(), OVER_RATE_PAUSE);
        assert!(matches!(paid, Paid::Only { frames: 10..=12, .. }), "{paid:?}");
        assert_eq!((paid.wait_of(0), paid.wait_of(29).is_some()), (None, true));
    }

    #[test]
    fn a_hundred_bad_frames_in_a_row_are_the_last_ones() {
        let mut bad = BadFrames::default();
        let mut say = |is_bad, times: usize| (0..times).all(|_| bad.count(is_bad).is_ok());
        assert!(say(true, 99) && say(false, 1) && say(true, 99));
        assert!(!say(true, 1));
    }
}
