//! The files of a store as a kill would leave them at each of some fault points.

use cortex_testkit::memory_folder;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use tempfile::TempDir;

/// What kills leave: by fault point and by how much had been written, which is all that can differ.
pub(crate) type Images = BTreeMap<(&'static str, u64), Image>;

pub(crate) struct Image {
    pub(crate) files: TempDir,
    /// The sender had been told that the event is safe.
    pub(crate) is_acked: bool,
}

/// Where all tests share a process, other stores reach these points too: what they add is one more kill of ours.
pub(crate) fn take_images(
    database: PathBuf,
    points: &[&'static str],
    acked: &Arc<AtomicBool>,
) -> Arc<Mutex<Images>> {
    let images = Arc::new(Mutex::new(Images::new()));
    for point in points.iter().copied() {
        let (images, database, acked) = (Arc::clone(&images), database.clone(), Arc::clone(acked));
        let take = move || {
            let Ok(written) = written(&database) else { return };
            let mut images = images.lock().unwrap();
            if let Entry::Vacant(missing) = images.entry((point, written))
                && let Ok(files) = copy_files(&database)
            {
                missing.insert(Image { files, is_acked: acked.load(Ordering::SeqCst) });
            }
        };
        fail::cfg_callback(point, take).unwrap();
    }
    images
}

/// How far the log is: the counter of changes and the last frame, from the header of its index. Its length says nothing
/// once it was begun anew.
fn written(database: &Path) -> io::Result<u64> {
    let index = std::fs::read(database.with_extension("db-shm"))?;
    let word =
        |at: usize| index.get(at..at + 4).and_then(|word| word.try_into().ok()).map(u32::from_ne_bytes);
    let (Some(changes), Some(frame)) = (word(8), word(16)) else {
        return Err(io::ErrorKind::UnexpectedEof.into());
    };
    Ok(u64::from(changes) << 32 | u64::from(frame))
}

/// The database first: a fold between the two only repeats what the log still holds.
fn copy_files(database: &Path) -> io::Result<TempDir> {
    let files = memory_folder();
    for name in ["cortex.db", "cortex.db-wal"] {
        std::fs::copy(database.with_file_name(name), files.path().join(name))?;
    }
    Ok(files)
}
