//! What counts as an answer, and what a binding covers.

use super::*;

#[test]
fn only_the_forms_of_d9_are_answers() {
    let check = |text: &str, metadata: Option<&str>, expected: Option<(&str, Option<Decision>)>| {
        let found = read_answer(text, metadata);
        let found = found.as_ref().map(|answer| (answer.token.as_str(), answer.decision));
        assert_eq!(found, expected, "{text:?} {metadata:?}");
    };
    let approved = Some(Decision::Approved);
    let denied = Some(Decision::Denied);
    check("apr_ABC1:approve", None, Some(("apr_ABC1", approved)));
    check("  apr_ABC1:deny\n", None, Some(("apr_ABC1", denied)));
    check("x", Some(r#"{"data":"apr_A:deny"}"#), Some(("apr_A", denied)));
    check("x", Some(r#"{"action":"apr_A:approve"}"#), Some(("apr_A", approved)));
    check("YES", Some(r#"{"approvalToken":"apr_A"}"#), Some(("apr_A", approved)));
    check("n", Some(r#"{"approvalToken":"apr_A"}"#), Some(("apr_A", denied)));
    check("clicked", Some(r#"{"approvalToken":"apr_A","decision":"approve"}"#), Some(("apr_A", approved)));
    check("maybe", Some(r#"{"approvalToken":"apr_A"}"#), Some(("apr_A", None)));
    check("yes", None, None);
    check("please apr_A:approve this", None, None);
    check("apr_A and more", None, None);
    check("apr_A", None, Some(("apr_A", None)));
    check("apr_A:maybe", None, Some(("apr_A", None)));
    check("x", Some(r#"{"data":"apr_A:later"}"#), Some(("apr_A", None)));
    check("yes", Some(r#"{"approvalToken":"apr_A","action":"clicked"}"#), Some(("apr_A", approved)));
    check("no", Some(r#"{"approvalToken":"apr_A","decision":"approve"}"#), Some(("apr_A", approved)));
    check("hello", Some(r#"{"data":{"x":1},"chatId":"-100"}"#), None);
}

#[test]
fn a_binding_covers_every_byte_of_the_call_and_its_asker() {
    let topic = TopicRef { source: "cli".into(), topic_key: "home".into() };
    let other = TopicRef { source: "cli".into(), topic_key: "work".into() };
    let bound = bind("a.b", "{}", "ada", &topic, "1");
    assert_eq!(bound, bind("a.b", "{}", "ada", &topic, "1"));
    for changed in [
        bind("a.c", "{}", "ada", &topic, "1"),
        bind("a.b", "{\"x\":1}", "ada", &topic, "1"),
        bind("a.b", "{}", "bob", &topic, "1"),
        bind("a.b", "{}", "ada", &other, "1"),
        bind("a.b", "{}", "ada", &topic, "2"),
        bind("a.b{", "}", "ada", &topic, "1"),
    ] {
        assert_ne!(bound, changed);
    }
}
