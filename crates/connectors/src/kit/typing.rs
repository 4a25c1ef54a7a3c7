//! Follows a turn while it runs: shows that somebody writes, and takes the buttons off a question that was answered.

use super::place::ChatPlace;
use super::platform::Platform;
use super::run::Connector;
use cortex_api::LiveEvent;
use cortex_types::EventId;
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{Instant, interval_at};

/// Turns that are followed at the same time.
const TURNS_MAX: usize = 64;
/// Nobody is shown writing for longer.
const LONGEST: Duration = Duration::from_secs(600);

/// An event whose turn is followed.
#[derive(Debug)]
pub(super) struct Followed {
    event: EventId,
    place: ChatPlace,
    press: Option<Press>,
}

/// The press of a button that the event is.
#[derive(Debug)]
struct Press {
    message: Option<String>,
    data: String,
}

impl Followed {
    pub(super) fn turn(event: EventId, place: ChatPlace) -> Self {
        Self { event, place, press: None }
    }

    pub(super) fn press(event: EventId, place: ChatPlace, message: Option<String>, data: String) -> Self {
        Self { event, place, press: Some(Press { message, data }) }
    }
}

impl<P: Platform> Connector<P> {
    pub(super) fn begin_following(&self, followed: Followed) {
        // One that finds no room is answered all the same; only nobody is shown writing.
        if self.follow.try_send(followed).is_err() {
            tracing::debug!("too many turns to follow");
        }
    }

    pub(super) async fn accompany(&self, followed: Option<mpsc::Receiver<Followed>>) {
        let Some(mut followed) = followed else { return };
        let mut running = FuturesUnordered::new();
        loop {
            tokio::select! {
                () = self.stop.cancelled() => return,
                Some(next) = followed.recv(), if running.len() < TURNS_MAX => running.push(self.follow_turn(next)),
                Some(()) = running.next(), if !running.is_empty() => {}
            }
        }
    }

    async fn follow_turn(&self, followed: Followed) {
        let mut shows = followed.press.is_none() && self.shows_typing(&followed.place).await;
        let Ok(mut live) = self.client.live(&followed.event).await else { return self.wake.notify_one() };
        let lasts = self.platform.rules().typing_lasts * 4 / 5;
        let (until, mut again) = (Instant::now() + LONGEST, interval_at(Instant::now() + lasts, lasts));
        let said = loop {
            tokio::select! {
                _ = again.tick(), if shows => {
                    shows = Instant::now() < until && self.shows_typing(&followed.place).await;
                }
                next = live.next() => match next {
                    Some(Ok(LiveEvent::Done(done))) => break Some(done.text),
                    Some(Ok(LiveEvent::Delta(_) | LiveEvent::Restart)) => {}
                    Some(Err(_)) | None => break None,
                },
            }
        };
        self.wake.notify_one();
        // An answer that was taken is followed by silence; one that was refused is told why, and may be given again.
        if let (Some(press), Some(None)) = (followed.press, said) {
            self.finish_prompt(&followed.place, press).await;
        }
    }

    /// Whether it is worth showing again.
    async fn shows_typing(&self, place: &ChatPlace) -> bool {
        self.platform.show_typing(&self.address(place)).await.is_ok()
    }

    async fn finish_prompt(&self, place: &ChatPlace, press: Press) {
        if let Some(message) = &press.message
            && let Err(error) = self.platform.clear_buttons(&self.address(place), message).await
        {
            tracing::debug!(%error, "the buttons could not be taken off");
        }
        if let Err(error) = self.notebook.write(|pages| pages.close_prompt(&press.data)) {
            tracing::warn!(%error, "an answered question could not be noted");
        }
    }

    /// Where a place is now.
    pub(super) fn address(&self, place: &ChatPlace) -> ChatPlace {
        self.notebook.read(|pages| pages.address_of(place))
    }
}
