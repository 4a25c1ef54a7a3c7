//! The history, where it is looked at while somebody waits: so many lines and no more.

use cortex_testkit::{TempStore, answered, new_event, topic};
use cortex_types::Millis;

const NOW: Millis = Millis(1_000);

#[tokio::test]
async fn own_words_are_looked_for_among_the_newest_lines_whoever_wrote_them() {
    let store = TempStore::create();
    let chat = topic("telegram", "chat");
    for number in 0..4 {
        store.inbox().accept(new_event(&chat, "well?"), NOW).await.unwrap();
        let claimed = store.inbox().claim_next(1, NOW).await.unwrap().whole.remove(0);
        let end = answered(&format!("answer {number}"), Vec::new());
        store.turns().finish_turn(&claimed.event, end, Vec::new(), NOW).await.unwrap();
    }
    let own = async |lines| store.history().own_words(chat.clone(), lines, 1_000).await.unwrap();
    let newest_first = ["answer 3", "answer 2", "answer 1", "answer 0"];
    assert_eq!(own(100).await, newest_first);
    // Each answer stands behind the line that it answers.
    assert_eq!(own(4).await, newest_first[..2]);
    let connection = rusqlite::Connection::open(store.path()).unwrap();
    connection.execute("UPDATE turns SET untrusted = 1 WHERE id > 2", []).unwrap();
    assert_eq!(own(8).await, newest_first[3..]);
    assert_eq!(own(6).await, [""; 0], "what is marked is looked at, too, and nothing is looked at beyond");
}
