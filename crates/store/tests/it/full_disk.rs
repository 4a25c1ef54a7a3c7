//! A full disk: nothing is acked, nothing is half-written, and room is all it takes to go on.
//!
//! The test starts itself once more, in a mount namespace of its own with a small disk in memory. Where that is
//! not allowed, the child's files may not grow, which stops SQLite in the same places.

use crate::group_commit::event_rows;
use cortex_store::{Store, StoreConfig, StoreError, StoreHealth};
use cortex_testkit::{answered, memory_folder, new_event, new_reply, topic};
use cortex_types::{AcceptedEvent, InboxStatus, Millis};
use rusqlite::Connection;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

const NAME: &str = "full_disk::a_full_disk_refuses_whole_requests_and_room_is_all_it_needs";
/// Tells the child which kind of disk it is on.
const DISK: &str = "CORTEX_TEST_DISK";
const NOW: Millis = Millis(1_000);

/// How the child's disk is filled and freed.
enum Disk {
    Small { filler: PathBuf },
    Limited,
}

impl Disk {
    fn fill(&self) {
        match self {
            Self::Small { filler } => {
                let mut file = File::create(filler).unwrap();
                for block in [65_536, 4_096, 1] {
                    while file.write_all(&vec![7; block]).is_ok() {}
                }
            }
            Self::Limited => limit_growth(Some(0)),
        }
    }

    fn free(&self) {
        match self {
            Self::Small { filler } => fs::remove_file(filler).unwrap(),
            Self::Limited => limit_growth(None),
        }
    }
}

fn limit_growth(bytes: Option<u64>) {
    let hard = getrlimit(Resource::Fsize).maximum;
    setrlimit(Resource::Fsize, Rlimit { current: bytes.or(hard), maximum: hard }).unwrap();
}

#[test]
fn a_full_disk_refuses_whole_requests_and_room_is_all_it_needs() {
    if let Ok(kind) = std::env::var(DISK) {
        return on_a_disk_that_fills(&kind);
    }
    let folder = memory_folder();
    let small = "mount -t tmpfs -o size=4m none \"$HOME\" && exec \"$0\" \"$@\"";
    let limited = "trap '' XFSZ && exec \"$0\" \"$@\"";
    let shells: [&[&str]; 3] = [
        &["unshare", "--mount", "/bin/sh", "-c", small],
        &["unshare", "--user", "--map-root-user", "--mount", "/bin/sh", "-c", small],
        &["/bin/sh", "-c", limited],
    ];
    for (shell, kind) in shells.into_iter().zip(["small", "small", "limited"]) {
        let ended = start_again(shell, kind, folder.path());
        let text = String::from_utf8_lossy(&ended.stdout).into_owned();
        if text.contains("running 1 test") {
            assert!(
                ended.status.success(),
                "on a {kind} disk: {text}{}",
                String::from_utf8_lossy(&ended.stderr)
            );
            return;
        }
    }
    panic!("no kind of full disk can be had here");
}

fn start_again(shell: &[&str], kind: &str, folder: &Path) -> Output {
    let mut child = Command::new(shell[0]);
    child.args(&shell[1..]).arg(std::env::current_exe().unwrap()).args([NAME, "--exact", "--nocapture"]);
    child.env(DISK, kind).env("HOME", folder).output().unwrap_or_else(|_| Output {
        status: std::process::ExitStatus::default(),
        stdout: Vec::new(),
        stderr: Vec::new(),
    })
}

fn on_a_disk_that_fills(kind: &str) {
    let folder = PathBuf::from(std::env::var_os("HOME").unwrap());
    let disk = match kind {
        "small" => Disk::Small { filler: folder.join("filler") },
        _ => Disk::Limited,
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(fill_and_free(&disk, &folder.join("cortex.db")));
}

async fn fill_and_free(disk: &Disk, database: &Path) {
    let (store, thread) = Store::open(StoreConfig::at(database)).unwrap();
    let chat = topic("telegram", "chat");
    let first = new_event(&chat, "hello");
    store.inbox().accept(first.clone(), NOW).await.unwrap();
    let claimed = store.inbox().claim_next(1, NOW).await.unwrap().whole.remove(0);

    for round in 0..3 {
        disk.fill();
        let event = new_event(&chat, &"x".repeat(100_000));
        for _ in 0..3 {
            let refused = store.inbox().accept(event.clone(), NOW).await;
            assert!(matches!(refused, Err(StoreError::Unavailable(_))), "round {round}: {refused:?}");
            let end = answered(&"y".repeat(50_000), vec![new_reply(&chat, &"y".repeat(50_000))]);
            let refused = store.turns().finish_turn(&claimed.event, end, Vec::new(), NOW).await;
            assert!(matches!(refused, Err(StoreError::Unavailable(_))), "round {round}: {refused:?}");
        }
        assert!(matches!(store.health(), StoreHealth::Degraded(_)));
        assert_eq!(store.usage().queued_events, round + 1, "what was given up does not wait");
        nothing_is_half_written(database, &store, i64::try_from(round).unwrap() + 1).await;

        disk.free();
        let answer = accept_when_open_again(&store, event.clone()).await;
        assert_eq!(answer, AcceptedEvent::Queued(event.id), "round {round}");
        assert_eq!(store.health(), StoreHealth::Healthy);
    }
    store.turns().finish_turn(&claimed.event, answered("hi", Vec::new()), Vec::new(), NOW).await.unwrap();
    store.check_integrity().await.unwrap();
    drop(store);
    thread.close();

    let (store, thread) = Store::open(StoreConfig::at(database)).unwrap();
    let counts = store.inbox().counts().await.unwrap();
    assert_eq!((counts.done, counts.pending), (1, 3));
    drop(store);
    thread.close();
}

async fn nothing_is_half_written(database: &Path, store: &Store, events: i64) {
    assert_eq!(event_rows(&Connection::open(database).unwrap()), events);
    let counts = store.outbox().counts().await.unwrap();
    assert_eq!(counts, cortex_store::OutboxCounts::default());
    let history = store.turns().history(topic("telegram", "chat"), 10).await.unwrap();
    assert_eq!(history, []);
    let running =
        store.inbox().list(Some(InboxStatus::Processing), cortex_store::PageRequest::newest(9)).await;
    assert_eq!(running.unwrap().rows.len(), 1);
}

/// The broken connection is opened again after a short pause; until then the store stays unavailable.
async fn accept_when_open_again(store: &Store, event: cortex_types::NewEvent) -> AcceptedEvent {
    for _ in 0..100 {
        match store.inbox().accept(event.clone(), NOW).await {
            Ok(answer) => return answer,
            Err(StoreError::Unavailable(_)) => tokio::time::sleep(Duration::from_millis(50)).await,
            Err(other) => panic!("{other}"),
        }
    }
    panic!("there is room again, but the store stays unavailable: {:?}", store.health());
}
