//! Approvers: who may answer questions that others were asked.

use cortex_types::{Event, Standing, names_its_source};

/// Whether the settings let the sender of an event answer for others. The source has to vouch for him: an entry is a user id
/// with its source (`slack/U1`), or a user id alone, which counts where it names its source itself (`slack:U1`) or
/// where the owner's own key spoke.
pub fn is_approver(approvers: &[String], event: &Event) -> bool {
    let (source, person) = (event.topic.source.as_str(), event.user_id.as_str());
    // A person may be named with the source already (D17).
    let named = person.strip_prefix(source).and_then(|rest| rest.strip_prefix('/'));
    let user = named.unwrap_or(person);
    let is_known_by_id = match event.standing {
        Standing::Owner => true,
        Standing::Key | Standing::Trusted => names_its_source(source, user),
        Standing::Local | Standing::Hook | Standing::Inside => return false,
    };
    let with_source = format!("{source}/{user}");
    approvers.iter().any(|entry| *entry == with_source || (is_known_by_id && entry == user))
}

#[cfg(test)]
mod tests {
    use super::*;
    use cortex_types::{InboxStatus, Millis, Priority, TopicRef};

    fn by(standing: Standing, source: &str, user: &str) -> Event {
        Event {
            seq: 1,
            id: "evt_01J00000000000000000000000".parse().unwrap(),
            topic: TopicRef { source: source.into(), topic_key: "t".into() },
            channel: source.into(),
            external_message_id: "1".into(),
            idempotency_key: "1".into(),
            user_id: user.into(),
            text: "x".into(),
            occurred_at: Millis(0),
            metadata_json: None,
            priority: Priority::Normal,
            status: InboxStatus::Processing,
            attempts: 1,
            error: None,
            created_at: Millis(0),
            updated_at: Millis(0),
            standing,
            audience: cortex_types::Audience::Private,
            answer: None,
        }
    }

    #[test]
    fn an_approver_is_a_person_on_a_source_that_proved_itself() {
        let approvers = ["tg:1", "slack:U1", "mail/boss"].map(str::to_owned);
        let check = |standing, source: &str, user: &str, expected| {
            assert_eq!(
                is_approver(&approvers, &by(standing, source, user)),
                expected,
                "{standing} {source} {user}"
            );
        };
        check(Standing::Owner, "telegram", "tg:1", true);
        check(Standing::Key, "slack", "slack:U1", true);
        check(Standing::Key, "mail", "boss", true);
        check(Standing::Trusted, "mail", "boss", true);
        check(Standing::Key, "mail", "mail/boss", true);
        check(Standing::Key, "telegram", "tg:1", true);
        check(Standing::Key, "slack", "mail/boss", false);
        check(Standing::Key, "mail", "tg:1", false);
        check(Standing::Key, "tg", "tg:1", false);
        check(Standing::Key, "mail", "slack:U1", false);
        check(Standing::Key, "slack", "boss", false);
        for unproven in [Standing::Local, Standing::Hook, Standing::Inside] {
            check(unproven, "mail", "boss", false);
            check(unproven, "slack", "slack:U1", false);
        }
    }
}
