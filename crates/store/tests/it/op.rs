//! An op ends once, is read by the turn that saw its end, and is put away only after that.

use cortex_store::{FinishedTurn, Learned, PageRequest, Settled, TurnEnd};
use cortex_testkit::{TempStore, new_event, topic};
use cortex_types::{Millis, NewEvent, NewOp, Op, OpEnding, OpId, OpStatus};
use rusqlite::Connection;
use ulid::Ulid;

const NOW: Millis = Millis(1_000);

pub(crate) fn new_op(number: u128, run_id: Option<&str>) -> NewOp {
    NewOp {
        id: OpId::from_ulid(Ulid::from_parts(1, number)),
        kind: "router_job".to_owned(),
        description: format!("job {number}"),
        topic: topic("webchat", "main"),
        user_id: "ada".to_owned(),
        event: None,
        expected_channel: Some("webchat".to_owned()),
        run_id: run_id.map(str::to_owned),
    }
}

pub(crate) fn told(op: &Op) -> NewEvent {
    let event = new_event(&op.topic, op.result.as_deref().unwrap_or_default());
    NewEvent { external_message_id: format!("op:{}", op.id), ..event }
}

pub(crate) fn completed(result: &str) -> OpEnding {
    OpEnding::Completed { result: result.to_owned() }
}

fn failed(error: &str) -> OpEnding {
    OpEnding::Failed { error: error.to_owned() }
}

/// Ends the turn of whatever waits, with these ops read.
async fn answer(store: &TempStore, acknowledged: Vec<OpId>, now: Millis) {
    store.inbox().accept(new_event(&topic("webchat", "main"), "hello"), now).await.unwrap();
    let claimed = store.inbox().claim_next(1, now).await.unwrap().whole.remove(0);
    let end = TurnEnd::Answered(Box::new(FinishedTurn { acknowledged, ..FinishedTurn::default() }));
    store.turns().finish_turn(&claimed.event, end, Vec::new(), now).await.unwrap();
}

async fn shown(store: &TempStore) -> Vec<String> {
    store.ops().shown(None).await.unwrap().into_iter().map(|op| op.description).collect()
}

async fn status(store: &TempStore, number: u128) -> OpStatus {
    store.ops().find(new_op(number, None).id).await.unwrap().unwrap().status
}

async fn texts(store: &TempStore) -> Vec<String> {
    let page = store.inbox().list(None, PageRequest::newest(100)).await.unwrap();
    page.rows.into_iter().map(|event| event.text).collect()
}

#[tokio::test]
async fn a_failed_op_keeps_its_error_as_its_result_and_a_late_result_never_overwrites_it() {
    let store = TempStore::create();
    let op = new_op(1, None);
    assert!(store.ops().add(op.clone(), NOW).await.unwrap());
    assert!(!store.ops().add(op.clone(), NOW).await.unwrap(), "an id is tracked once");
    let ended = store.ops().settle(op.id.clone(), failed("no network"), Millis(2_000), told).await.unwrap();
    let Settled::Now(ended) = ended else { panic!("{ended:?}") };
    assert_eq!((ended.status, ended.result.as_deref()), (OpStatus::Failed, Some("Error: no network")));
    assert_eq!((ended.completed_at, ended.acknowledged_at), (Some(Millis(2_000)), None));
    let late = store.ops().settle(op.id.clone(), completed("42"), Millis(3_000), told).await.unwrap();
    assert_eq!(late, Settled::Already(ended));
    assert_eq!(texts(&store).await, ["Error: no network"], "one end, one event");
    let nobody = store.ops().settle(new_op(9, None).id, completed("42"), NOW, told).await.unwrap();
    assert_eq!(nobody, Settled::Unknown);
}

#[tokio::test]
async fn ends_are_shown_until_the_turn_that_saw_them_has_ended_and_pending_ops_always() {
    let store = TempStore::create();
    for number in 1..=4 {
        store.ops().add(new_op(number, None), Millis(number as i64)).await.unwrap();
    }
    let id = |number| new_op(number, None).id;
    store.ops().settle(id(2), completed("two"), NOW, told).await.unwrap();
    store.ops().settle(id(3), failed("three"), NOW, told).await.unwrap();
    assert_eq!(shown(&store).await, ["job 2", "job 3", "job 1", "job 4"], "ends come first");
    // Op 4 ends while the turn that saw 1 to 3 runs: it was shown as pending and stays unread.
    store.ops().settle(id(4), completed("four"), NOW, told).await.unwrap();
    answer(&store, vec![id(2), id(3)], Millis(5_000)).await;
    assert_eq!(shown(&store).await, ["job 4", "job 1"]);
    assert_eq!(store.ops().find(id(3)).await.unwrap().unwrap().acknowledged_at, Some(Millis(5_000)));
    // A turn that names a pending op reads nothing.
    answer(&store, vec![id(1)], NOW).await;
    assert_eq!(shown(&store).await, ["job 4", "job 1"]);
    let others = store.ops().shown(Some(vec!["eve".to_owned()])).await.unwrap();
    assert_eq!(others, []);
    assert_eq!(store.ops().shown(Some(vec!["eve".to_owned(), "ada".to_owned()])).await.unwrap().len(), 2);
}

/// What each checkpoint says of the ops, the oldest first.
fn in_checkpoints(store: &TempStore) -> Vec<String> {
    let look = Connection::open(store.path()).unwrap();
    let mut statement = look
        .prepare("SELECT (SELECT group_concat(value ->> 'status') FROM json_each(pending_ops)) FROM cortex_checkpoints ORDER BY id")
        .unwrap();
    let rows =
        statement.query_map([], |row| Ok(row.get::<_, Option<String>>(0)?.unwrap_or_default())).unwrap();
    rows.collect::<Result<_, _>>().unwrap()
}

#[tokio::test]
async fn a_checkpoint_keeps_the_ops_as_they_were_when_its_turn_ended() {
    let store = TempStore::create();
    for number in 1..=2 {
        store.ops().add(new_op(number, None), NOW).await.unwrap();
    }
    answer(&store, Vec::new(), Millis(2_000)).await;
    store.ops().settle(new_op(1, None).id, completed("one"), Millis(3_000), told).await.unwrap();
    store.ops().settle(new_op(2, None).id, failed("two"), Millis(3_000), told).await.unwrap();
    // The two events that tell the ends have their turns first.
    for moment in [4_000, 5_000] {
        answer(&store, Vec::new(), Millis(moment)).await;
    }
    answer(&store, vec![new_op(1, None).id, new_op(2, None).id], Millis(6_000)).await;
    assert_eq!(in_checkpoints(&store), ["pending,pending", "completed,failed", "completed,failed", ""]);
}

#[tokio::test]
async fn only_ops_that_no_durable_run_owns_are_orphans() {
    let store = TempStore::create();
    store.ops().add(new_op(1, None), NOW).await.unwrap();
    store.ops().add(new_op(2, Some("run_7")), NOW).await.unwrap();
    store.ops().add(new_op(3, None), NOW).await.unwrap();
    store.ops().settle(new_op(3, None).id, completed("done before"), NOW, told).await.unwrap();
    let failed = store.ops().fail_orphans("orphaned", Millis(9_000), told).await.unwrap();
    assert_eq!(failed, 1);
    assert_eq!(
        (status(&store, 1).await, status(&store, 2).await, status(&store, 3).await),
        (OpStatus::Failed, OpStatus::Pending, OpStatus::Completed)
    );
    assert_eq!(texts(&store).await, ["Error: orphaned", "done before"]);
    assert_eq!(store.ops().fail_orphans("orphaned", NOW, told).await.unwrap(), 0);
}

#[tokio::test]
async fn only_a_completed_op_that_was_read_is_harvested_and_put_away() {
    let store = TempStore::create();
    for number in 1..=3 {
        store.ops().add(new_op(number, None), NOW).await.unwrap();
    }
    let id = |number| new_op(number, None).id;
    store.ops().settle(id(1), completed("unread"), NOW, told).await.unwrap();
    store.ops().settle(id(2), completed("read"), NOW, told).await.unwrap();
    store.ops().settle(id(3), failed("read too"), NOW, told).await.unwrap();
    answer(&store, vec![id(2), id(3)], NOW).await;
    let found: Vec<OpId> = store.ops().harvestable(10).await.unwrap().into_iter().map(|op| op.id).collect();
    assert_eq!(found, [id(2)]);
    for number in 1..=3 {
        store.gardener().settle(Learned::FromOp(id(number)), Millis(7_000)).await.unwrap();
    }
    let gardened = store.ops().list(Some(OpStatus::Gardened), PageRequest::newest(10)).await.unwrap().rows;
    assert_eq!(gardened.iter().map(|op| op.id.clone()).collect::<Vec<_>>(), [id(2)]);
    assert_eq!(store.ops().archive(Millis(6_999)).await.unwrap(), 0);
    assert_eq!(store.ops().archive(Millis(7_000)).await.unwrap(), 1);
    assert_eq!(store.ops().find(id(2)).await.unwrap().unwrap().status, OpStatus::Archived);
}

#[tokio::test]
async fn a_listing_of_ops_goes_on_where_the_page_before_ended() {
    let store = TempStore::create();
    for number in 1..=5 {
        store.ops().add(new_op(number, None), NOW).await.unwrap();
    }
    let first = store.ops().list(None, PageRequest::newest(3)).await.unwrap();
    let rest = PageRequest { before: first.next_before, limit: 3 };
    let second = store.ops().list(None, rest).await.unwrap();
    let names = |ops: &[Op]| ops.iter().map(|op| op.description.clone()).collect::<Vec<_>>();
    assert_eq!(
        (names(&first.rows), names(&second.rows)),
        (
            vec!["job 5".to_owned(), "job 4".to_owned(), "job 3".to_owned()],
            vec!["job 2".to_owned(), "job 1".to_owned()],
        )
    );
    assert_eq!(second.next_before, None);
}
