//! What becomes of something that was said: an event, a command, a pairing, or nothing at all.

use super::admission::{Verdict, judge};
use super::button::data_with_word;
use super::command::{Command, HELP};
use super::hand_in::HandedIn;
use super::listen::Interrupted;
use super::pages::Prompt;
use super::pairing::PairingCode;
use super::platform::{Platform, Said};
use super::run::Connector;
use super::typing::Followed;
use cortex_api::{HealthStatus, IngestRequest};
use cortex_types::{CHAT_TYPE, Clock};
use serde_json::{Map, Value, json};
use std::sync::PoisonError;
use tokio::time::Instant;

const QUOTE_CHARS_MAX: usize = 300;
/// The server wants words, also for a picture that came without any.
const NO_WORDS: &str = "(sent without words)";

impl<P: Platform> Connector<P> {
    pub(super) async fn hear(&self, said: &Said) -> Result<(), Interrupted> {
        let is_allowed = self.is_allowed(&said.user);
        // The words of a button mean the question, so nobody else has to be named with them.
        if let Some((data, message)) = self.typed_press(said).filter(|_| is_allowed) {
            let message = message.as_deref();
            return self
                .press(&said.external_id, &said.user, &said.place, message, &data, said.occurred_at)
                .await;
        }
        match judge(said, is_allowed, self.settings.groups, self.platform.rules().command_mark) {
            Verdict::Pass => {
                tracing::debug!(event = said.external_id, is_allowed, "passed over");
                Ok(())
            }
            Verdict::Pair(code) => self.pair(said, &code, is_allowed).await,
            Verdict::GreetStranger => {
                let may = {
                    let mut tries = self.tries.lock().unwrap_or_else(PoisonError::into_inner);
                    tries.may_greet(&said.user, Instant::now())
                };
                if may {
                    let words = format!(
                        "I do not know you. Your user id is {}; the owner can let you in with it, or with a pairing code.",
                        said.user
                    );
                    self.tell(&said.place, &words).await;
                }
                Ok(())
            }
            Verdict::Command(command) => self.obey(said, command).await,
            Verdict::Event => self.pass_on(said).await,
        }
    }

    /// Who types what a button of an open question stands for has pressed it.
    fn typed_press(&self, said: &Said) -> Option<(String, Option<String>)> {
        let data = said.text.trim();
        let typed = |prompt: &Prompt| (data.to_owned(), prompt.message.clone());
        self.notebook.read(|pages| pages.prompt_with(data).map(typed)).filter(|_| !said.is_edit)
    }

    fn may_try_code(&self, user: &str) -> bool {
        self.tries.lock().unwrap_or_else(PoisonError::into_inner).may_try_code(user, Instant::now())
    }

    /// A wrong code changes nothing and is answered like no code at all.
    async fn pair(&self, said: &Said, code: &PairingCode, is_allowed: bool) -> Result<(), Interrupted> {
        if !is_allowed && !self.may_try_code(&said.user) {
            tracing::warn!(user = said.user, "too many pairing codes; this one is not looked at");
            return Ok(());
        }
        let spent = self.notebook.read(|pages| pages.spent_code.clone());
        match code.redeem(self.notebook.folder(), spent.as_deref(), self.clock.now()) {
            Some(hash) => {
                self.notebook.write(|pages| {
                    pages.allowed.insert(said.user.clone());
                    pages.spent_code = Some(hash);
                })?;
                tracing::info!(user = said.user, "paired");
                self.tell(&said.place, "Paired: from now on I listen to you here.").await;
                Ok(())
            }
            None if is_allowed => self.pass_on(said).await,
            None => {
                tracing::warn!(user = said.user, "a wrong pairing code");
                self.tell(&said.place, "This code is not valid, or not any more.").await;
                Ok(())
            }
        }
    }

    async fn obey(&self, said: &Said, command: Command) -> Result<(), Interrupted> {
        let mark = self.platform.rules().command_mark;
        match command {
            Command::Start => {
                let words = format!(
                    "Hello. You are allowed to talk to me; your user id is {}. {mark}help shows what I understand.",
                    said.user
                );
                self.tell(&said.place, &words).await;
            }
            Command::Help => self.tell(&said.place, &HELP.replace('/', &mark.to_string())).await,
            Command::Status => {
                let words = self.status_words(said).await;
                self.tell(&said.place, &words).await;
            }
            Command::New => {
                // With the id, in one write: hearing the command again after a crash must not begin a third one.
                self.notebook.write(|pages| {
                    pages.see(&said.external_id);
                    pages.begin_conversation(&said.place)
                })?;
                self.tell(&said.place, "A new conversation. What we said before is not in it.").await;
            }
            Command::Stop => self.deny_all(said).await?,
            Command::Approve(number) => self.approve(said, number).await?,
        }
        Ok(())
    }

    async fn status_words(&self, said: &Said) -> String {
        let open = self.notebook.read(|pages| pages.prompts_in(&said.place, self.clock.now()).len());
        let server = match self.client.health().await {
            Ok(health) => match health.status {
                HealthStatus::Healthy => "The server is there and well.".to_owned(),
                HealthStatus::Degraded | HealthStatus::Damaged => {
                    "The server is there, but something is wrong; `cortex status` says what.".to_owned()
                }
                HealthStatus::Full => {
                    "The server is there, but takes no new messages now; `cortex status` says why.".to_owned()
                }
            },
            Err(_) => {
                "The server does not answer. What you write is kept and handed in when it is back.".to_owned()
            }
        };
        let topic = self.notebook.read(|pages| pages.topic_of(&said.place));
        format!("{server}\nConversation: {topic}\nOpen questions here: {open}")
    }

    /// Presses what the person saw: a question that came later than their words, or that another number stands for, is not
    /// the one that they mean.
    async fn approve(&self, said: &Said, number: Option<u32>) -> Result<(), Interrupted> {
        let open = self.notebook.read(|pages| pages.prompts_in(&said.place, self.clock.now()));
        let mark = self.platform.rules().command_mark;
        let named = open.iter().find(|prompt| Some(prompt.number) == number);
        let chosen = match (number, named, open.as_slice()) {
            (_, _, []) => Err("Nothing is asked here.".to_owned()),
            (Some(_), Some(named), _) => Ok(named),
            (None, _, [only]) => Ok(only),
            (Some(number), None, several) => {
                Err(format!("There is no open question {number} here. {}", which_one(several, mark)))
            }
            (None, _, several) => Err(which_one(several, mark)),
        };
        let told = match chosen {
            Ok(prompt) if !prompt.was_seen_by(said.occurred_at) => Some(format!(
                "This question came after your {mark}approve: {}\nPress its button, or send {mark}approve again.",
                prompt.words
            )),
            Ok(prompt) if self.press_word(said, prompt, "approve", &said.external_id).await? => None,
            Ok(_) => Some("That question cannot be approved; press one of its buttons.".to_owned()),
            Err(words) => Some(words),
        };
        if let Some(words) = told {
            self.tell(&said.place, &words).await;
        }
        Ok(())
    }

    async fn deny_all(&self, said: &Said) -> Result<(), Interrupted> {
        let mut denied = 0;
        for (index, prompt) in
            self.notebook.read(|pages| pages.prompts_in(&said.place, self.clock.now())).iter().enumerate()
        {
            let id = format!("{}:{index}", said.external_id);
            denied += usize::from(self.press_word(said, prompt, "deny", &id).await?);
        }
        let words = match denied {
            0 => "Nothing is asked here. An answer that is being written cannot be stopped from here."
                .to_owned(),
            _ => format!("Denied: {denied}. An answer that is being written cannot be stopped from here."),
        };
        self.tell(&said.place, &words).await;
        Ok(())
    }

    /// Presses the button of a prompt that says this word; false when it has none.
    async fn press_word(
        &self,
        said: &Said,
        prompt: &Prompt,
        word: &str,
        id: &str,
    ) -> Result<bool, Interrupted> {
        let Some(data) = data_with_word(&prompt.buttons, word) else { return Ok(false) };
        self.press(id, &said.user, &said.place, prompt.message.as_deref(), data, said.occurred_at).await?;
        Ok(true)
    }

    async fn pass_on(&self, said: &Said) -> Result<(), Interrupted> {
        let attachments = self.fetch_files(said).await?;
        let source = self.platform.source();
        let mut metadata = Map::new();
        metadata.insert("chatId".to_owned(), said.place.chat.clone().into());
        metadata.insert(CHAT_TYPE.to_owned(), said.place.audience().as_str().into());
        let optional = [
            ("threadId", said.place.thread.clone()),
            ("messageId", said.message.clone()),
            ("userName", said.user_name.clone()),
        ];
        metadata
            .extend(optional.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?.into()))));
        if said.is_edit {
            metadata.insert("edited".to_owned(), true.into());
        }
        if let Some(quote) = &said.reply_to {
            let text = shortened(&quote.text);
            metadata.insert("replyTo".to_owned(), json!({"author": quote.author, "text": text}));
        }
        if !attachments.is_empty() {
            let attachments = attachments.iter().map(|one| serde_json::to_value(one).unwrap_or(Value::Null));
            metadata.insert("attachments".to_owned(), attachments.collect());
        }
        let event = IngestRequest {
            source: source.to_owned(),
            external_message_id: said.external_id.clone(),
            idempotency_key: format!("{source}:{}", said.external_id),
            topic_key: self.notebook.read(|pages| pages.topic_of(&said.place)),
            user_id: self.platform.user_id(&said.user),
            text: words_of(said),
            occurred_at: said.occurred_at.to_rfc3339(),
            metadata: Some(metadata),
        };
        match self.hand_in(&event).await? {
            HandedIn::Queued(event) => self.begin_following(Followed::turn(event, said.place.clone())),
            HandedIn::Settled => {}
            HandedIn::Refused(reason) => {
                self.tell(&said.place, &format!("I could not take this message: {reason}")).await;
            }
        }
        Ok(())
    }
}

fn which_one(open: &[Prompt], mark: char) -> String {
    let lines = open.iter().map(|prompt| format!("{}. {}", prompt.number, prompt.words));
    let list = lines.collect::<Vec<_>>().join("\n");
    format!("Which one? Press its button, or send {mark}approve with its number:\n{list}")
}

/// What the assistant reads: what was replied to, that it is an edit, then the words.
fn words_of(said: &Said) -> String {
    let mut words = String::new();
    if let Some(quote) = &said.reply_to {
        let author = quote.author.as_deref().unwrap_or("a message");
        words.push_str(&format!(
            "[in reply to {}: {}]\n",
            one_line(author),
            one_line(&shortened(&quote.text))
        ));
    }
    if said.is_edit {
        words.push_str("[edited] ");
    }
    words.push_str(if said.text.trim().is_empty() { NO_WORDS } else { &said.text });
    words
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(QUOTE_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// A quote must not end our bracket and begin a line of its own.
fn one_line(text: &str) -> String {
    text.chars()
        .map(|letter| if letter.is_control() { ' ' } else { letter })
        .filter(|c| !matches!(c, '[' | ']'))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kit::place::ChatPlace;
    use crate::kit::platform::Quote;
    use cortex_types::Millis;

    #[test]
    fn the_assistant_reads_what_was_replied_to_and_that_it_is_an_edit() {
        let mut said = Said {
            external_id: "1".to_owned(),
            place: ChatPlace { chat: "1".to_owned(), thread: None, is_group: false },
            user: "42".to_owned(),
            user_name: None,
            text: "yes".to_owned(),
            occurred_at: Millis(0),
            is_addressed: true,
            is_edit: true,
            reply_to: Some(Quote { author: Some("Ada".to_owned()), text: "a]\n[b".repeat(100) }),
            files: Vec::new(),
            message: None,
        };
        let words = words_of(&said);
        assert!(words.starts_with("[in reply to Ada: a ba ba b"), "{words}");
        assert!(words.ends_with("…]\n[edited] yes"), "{words}");
        assert_eq!(words.lines().count(), 2);
        (said.text, said.is_edit, said.reply_to) = (" ".to_owned(), false, None);
        assert_eq!(words_of(&said), NO_WORDS);
    }
}
