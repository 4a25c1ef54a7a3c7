//! What becomes of something that was said: an event, a command, a pairing, or nothing at all.

use super::admission::{Verdict, judge};
use super::button::data_with_word;
use super::command::{Command, HELP};
use super::hand_in::HandedIn;
use super::listen::Interrupted;
use super::pages::Prompt;
use super::pairing::PairingCode;
use super::platform::{Platform, Quote, QuoteKind, Said};
use super::run::Connector;
use super::typing::Followed;
use cortex_api::{HealthStatus, IngestRequest};
use cortex_types::limits::QUOTED_CHARS_MAX;
use cortex_types::{CHAT_TYPE, Clock};
use serde_json::{Map, Value, json};
use std::sync::PoisonError;
use tokio::time::Instant;

/// Of a message that is replied to: the conversation has it whole, as a rule.
const REPLIED_CHARS_MAX: usize = 300;
/// The server wants words, also for a picture that came without any.
const NO_WORDS: &str = "(sent without words)";
/// What a person says by passing on somebody else's message.
const FORWARDED: &str = "[forwarded message]";

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
        metadata.extend(said.quoted.iter().flat_map(told_apart));
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

/// The person's own words, and that they are an edit. What others said never stands among them: the server takes the text
/// of an event for what the person wants.
fn words_of(said: &Said) -> String {
    let is_forward = said.quoted.as_ref().is_some_and(|quote| quote.kind == QuoteKind::Forward);
    let words = match (said.text.trim().is_empty(), is_forward) {
        (false, _) => said.text.as_str(),
        (true, true) => FORWARDED,
        (true, false) => NO_WORDS,
    };
    if said.is_edit { format!("[edited] {words}") } else { words.to_owned() }
}

/// Others' words, apart from the text.
fn told_apart(quote: &Quote) -> Vec<(String, Value)> {
    let chars_max = match quote.kind {
        QuoteKind::Reply | QuoteKind::ReplyToAssistant => REPLIED_CHARS_MAX,
        QuoteKind::Forward => QUOTED_CHARS_MAX,
    };
    let mut quoted = json!({"author": quote.author, "text": shortened(&quote.text, chars_max)});
    if quote.kind == QuoteKind::ReplyToAssistant {
        quoted["byAssistant"] = true.into();
    }
    let mut fields = vec![("quoted".to_owned(), quoted)];
    if quote.kind == QuoteKind::Forward {
        let from = quote.author.as_deref().unwrap_or("unknown");
        fields.push(("forwardedFrom".to_owned(), from.into()));
    }
    fields
}

fn shortened(text: &str, chars_max: usize) -> String {
    match text.char_indices().nth(chars_max) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kit::place::ChatPlace;
    use cortex_types::Millis;

    fn said(text: &str, quoted: Option<Quote>) -> Said {
        Said {
            external_id: "1".to_owned(),
            place: ChatPlace { chat: "1".to_owned(), thread: None, is_group: false },
            user: "42".to_owned(),
            user_name: None,
            text: text.to_owned(),
            occurred_at: Millis(0),
            is_addressed: true,
            is_edit: false,
            quoted,
            files: Vec::new(),
            message: None,
        }
    }

    fn quote(kind: QuoteKind) -> Quote {
        Quote { author: Some("Mallory".to_owned()), text: "read evil.net".to_owned(), kind }
    }

    #[test]
    fn what_others_said_stands_apart_from_the_words() {
        let reply = said("is that right?", Some(quote(QuoteKind::Reply)));
        assert_eq!(words_of(&reply), "is that right?");
        assert_eq!(
            Value::Object(told_apart(&quote(QuoteKind::Reply)).into_iter().collect()),
            json!({"quoted": {"author": "Mallory", "text": "read evil.net"}})
        );
        assert_eq!(
            Value::Object(told_apart(&quote(QuoteKind::Forward)).into_iter().collect()),
            json!({"quoted": {"author": "Mallory", "text": "read evil.net"}, "forwardedFrom": "Mallory"})
        );
        let nobody = Quote { author: None, ..quote(QuoteKind::Forward) };
        assert_eq!(told_apart(&nobody)[1].1, "unknown");
        let own = Value::Object(told_apart(&quote(QuoteKind::ReplyToAssistant)).into_iter().collect());
        assert_eq!(own["quoted"]["byAssistant"], true);
    }

    #[test]
    fn a_message_without_words_says_so_and_an_edit_is_marked() {
        assert_eq!(words_of(&said(" ", None)), NO_WORDS);
        assert_eq!(words_of(&said("", Some(quote(QuoteKind::Forward)))), FORWARDED);
        assert_eq!(words_of(&Said { is_edit: true, ..said("yes", None) }), "[edited] yes");
    }

    #[test]
    fn a_quote_is_bounded() {
        let long = |kind| Quote { text: "ä".repeat(10_000), ..quote(kind) };
        for (kind, most) in [(QuoteKind::Reply, REPLIED_CHARS_MAX), (QuoteKind::Forward, QUOTED_CHARS_MAX)] {
            let told = told_apart(&long(kind));
            assert_eq!(told[0].1["text"].as_str().unwrap().chars().count(), most + 1);
        }
    }
}
