//! Buttons that people press. A stranger's press is answered and changes nothing.

use super::button::{approval_token, approval_word, data_with_word};
use super::hand_in::HandedIn;
use super::listen::Interrupted;
use super::place::ChatPlace;
use super::platform::{Click, ClickAnswer, Platform, Reaction, Sign};
use super::run::Connector;
use super::typing::Followed;
use cortex_api::IngestRequest;
use cortex_types::Millis;
use serde_json::Map;

impl<P: Platform> Connector<P> {
    /// Every press is answered at once, whoever it was.
    pub(super) async fn greet_click(&self, click: &Click) {
        let is_allowed = self.is_allowed(&click.user);
        let answer = if is_allowed { ClickAnswer::PassedOn } else { ClickAnswer::NotForYou };
        if let Err(error) = self.platform.answer_click(click, answer).await {
            tracing::debug!(%error, "a press could not be answered");
        }
    }

    pub(super) async fn take_click(&self, click: &Click) -> Result<(), Interrupted> {
        if !self.is_allowed(&click.user) {
            tracing::debug!(event = click.external_id, "a stranger's press is passed over");
            return Ok(());
        }
        let message = click.message.as_deref();
        self.press(&click.external_id, &click.user, &click.place, message, &click.data, click.occurred_at)
            .await
    }

    /// A sign presses the button that it stands for; under anything else than an open question it means nothing.
    pub(super) async fn take_reaction(&self, reaction: &Reaction) -> Result<(), Interrupted> {
        let word = match reaction.sign {
            Sign::Yes => "approve",
            Sign::No => "deny",
        };
        let data = self.notebook.read(|pages| {
            let prompt = pages.prompt_under(&reaction.message)?;
            data_with_word(&prompt.buttons, word).map(str::to_owned)
        });
        let Some(data) = data.filter(|_| self.is_allowed(&reaction.user)) else {
            tracing::debug!(event = reaction.external_id, "a sign is passed over");
            return Ok(());
        };
        let message = Some(reaction.message.as_str());
        let Reaction { external_id, user, place, occurred_at, .. } = reaction;
        self.press(external_id, user, place, message, &data, *occurred_at).await
    }

    /// Hands a press in, in the topic of the message that has the button.
    pub(super) async fn press(
        &self,
        external_id: &str,
        user: &str,
        place: &ChatPlace,
        message: Option<&str>,
        data: &str,
        occurred_at: Millis,
    ) -> Result<(), Interrupted> {
        let source = self.platform.source();
        let (topic_key, label) = self.notebook.read(|pages| match pages.prompt_with(data) {
            Some(prompt) => {
                let button = prompt.buttons.iter().find(|button| button.data == data);
                (prompt.topic_key.clone(), button.map(|button| button.label.clone()))
            }
            None => (pages.topic_of(place), None),
        });
        let mut metadata = Map::new();
        metadata.insert("chatId".to_owned(), place.chat.clone().into());
        metadata.insert("messageType".to_owned(), "button_click".into());
        metadata.insert("data".to_owned(), data.into());
        if let Some(token) = approval_token(data) {
            metadata.insert("approvalToken".to_owned(), token.into());
        }
        let text = approval_word(data).map(str::to_owned).or(label).unwrap_or_else(|| data.to_owned());
        let event = IngestRequest {
            source: source.to_owned(),
            external_message_id: external_id.to_owned(),
            idempotency_key: format!("{source}:{external_id}"),
            topic_key,
            user_id: self.platform.user_id(user),
            text: if text.trim().is_empty() { "(pressed a button)".to_owned() } else { text },
            occurred_at: occurred_at.to_rfc3339(),
            metadata: Some(metadata),
        };
        match self.hand_in(&event).await? {
            HandedIn::Queued(event) => {
                let followed =
                    Followed::press(event, place.clone(), message.map(str::to_owned), data.to_owned());
                self.begin_following(followed);
            }
            HandedIn::Settled => {}
            HandedIn::Refused(reason) | HandedIn::NotLetIn(reason) => {
                self.tell(place, &format!("That did not work: {reason}")).await;
            }
        }
        Ok(())
    }
}
