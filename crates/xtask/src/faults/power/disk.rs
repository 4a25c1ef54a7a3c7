//! A disk that loses power: what was synced is there, and of the rest any part may be.
//!
//! Writes reach it in sectors of 512 bytes, in any order. Names reach it in the order they were made, and a file has its
//! name for sure only once its folder was synced. What a failed sync did not write, no later sync writes either: the
//! kernel takes it for written.

use super::trace::Happening;
use rand::Rng;
use std::collections::BTreeMap;

const SECTOR: usize = 512;

/// A file by its number; a name may move from one to another.
type Inode = usize;

#[derive(Default)]
pub(crate) struct Disk {
    folder: String,
    inodes: Vec<File>,
    /// Names as the running server sees them.
    names: BTreeMap<String, Inode>,
    /// Names as the disk has them for sure.
    kept_names: BTreeMap<String, Inode>,
    pending_names: Vec<NameChange>,
    /// Syncs that have begun, by thread: the file and how much of it they cover.
    syncs: BTreeMap<u32, Sync>,
}

#[derive(Default)]
struct File {
    kept: Vec<u8>,
    pending: Vec<Pending>,
    /// Changes that have left `pending`.
    gone_changes: usize,
}

struct Pending {
    change: Change,
    /// A sync over it failed.
    is_doomed: bool,
}

enum Change {
    Write { offset: usize, bytes: Vec<u8> },
    Truncate { length: usize },
}

#[derive(Clone)]
enum NameChange {
    Link(String, Inode),
    Unlink(String),
}

enum Sync {
    File { inode: Inode, changes: usize },
    Folder { changes: usize },
}

/// How much of what was not synced reaches an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Loss {
    /// All of it is gone.
    Everything,
    /// All of it is there, as after a kill.
    Nothing,
    /// The disk worked in order and stopped in the middle of a write.
    Tail,
    /// Each write is there, gone or torn by its own luck.
    Scattered,
}

/// Files by their names, as a start after the power loss finds them.
pub(crate) type Image = BTreeMap<String, Vec<u8>>;

impl Disk {
    /// An empty folder.
    pub(crate) fn new(folder: &str) -> Self {
        Self { folder: folder.to_owned(), ..Self::default() }
    }

    pub(crate) fn happen(&mut self, happening: &Happening) {
        match happening {
            Happening::Created { path } => {
                self.file_at(path);
            }
            Happening::Wrote { path, offset, bytes } => {
                let change = Change::Write {
                    offset: usize::try_from(*offset).unwrap_or(usize::MAX),
                    bytes: bytes.clone(),
                };
                self.file_at(path).change(change);
            }
            Happening::Truncated { path, length } => {
                let length = usize::try_from(*length).unwrap_or(usize::MAX);
                self.file_at(path).change(Change::Truncate { length });
            }
            Happening::Renamed { from, to } => {
                if let Some(inode) = self.names.remove(from) {
                    self.names.insert(to.clone(), inode);
                    let changes = [NameChange::Link(to.clone(), inode), NameChange::Unlink(from.clone())];
                    self.pending_names.extend(changes);
                }
            }
            Happening::Unlinked { path } => {
                if self.names.remove(path).is_some() {
                    self.pending_names.push(NameChange::Unlink(path.clone()));
                }
            }
            Happening::SyncBegan { thread, path } => self.sync_began(*thread, path),
            Happening::SyncEnded { thread, worked, .. } => {
                if let Some(sync) = self.syncs.remove(thread) {
                    self.sync_ended(&sync, *worked);
                }
            }
            Happening::Heard { .. } | Happening::Said { .. } => {}
        }
    }

    /// What a power loss now could leave.
    pub(crate) fn image(&self, loss: Loss, random: &mut impl Rng) -> Image {
        let mut names = self.kept_names.clone();
        let reached = match loss {
            Loss::Everything => 0,
            Loss::Nothing => self.pending_names.len(),
            Loss::Tail | Loss::Scattered => random.random_range(0..=self.pending_names.len()),
        };
        for change in &self.pending_names[..reached] {
            rename(&mut names, change);
        }
        names.into_iter().map(|(name, inode)| (name, self.inodes[inode].after(loss, random))).collect()
    }

    fn file_at(&mut self, path: &str) -> &mut File {
        let inode = match self.names.get(path) {
            Some(inode) => *inode,
            None => {
                let inode = self.inodes.len();
                self.inodes.push(File::default());
                self.names.insert(path.to_owned(), inode);
                self.pending_names.push(NameChange::Link(path.to_owned(), inode));
                inode
            }
        };
        &mut self.inodes[inode]
    }

    fn sync_began(&mut self, thread: u32, path: &str) {
        let sync = match self.names.get(path) {
            _ if path == self.folder => Sync::Folder { changes: self.pending_names.len() },
            Some(inode) => {
                let file = &self.inodes[*inode];
                Sync::File { inode: *inode, changes: file.gone_changes + file.pending.len() }
            }
            None => return,
        };
        self.syncs.insert(thread, sync);
    }

    fn sync_ended(&mut self, sync: &Sync, worked: bool) {
        match sync {
            Sync::Folder { changes } => {
                let covered = if worked { (*changes).min(self.pending_names.len()) } else { 0 };
                for change in self.pending_names.drain(..covered) {
                    rename(&mut self.kept_names, &change);
                }
            }
            Sync::File { inode, changes } => self.inodes[*inode].sync_ended(*changes, worked),
        }
    }
}

impl File {
    fn change(&mut self, change: Change) {
        self.pending.push(Pending { change, is_doomed: false });
    }

    fn sync_ended(&mut self, changes: usize, worked: bool) {
        let covered = changes.saturating_sub(self.gone_changes).min(self.pending.len());
        if !worked {
            self.pending[..covered].iter_mut().for_each(|pending| pending.is_doomed = true);
            return;
        }
        for pending in self.pending.drain(..covered) {
            self.gone_changes += 1;
            if !pending.is_doomed {
                apply(&mut self.kept, &pending.change);
            }
        }
    }

    fn after(&self, loss: Loss, random: &mut impl Rng) -> Vec<u8> {
        let mut bytes = self.kept.clone();
        match loss {
            Loss::Everything => {}
            Loss::Nothing => self.pending.iter().for_each(|pending| apply(&mut bytes, &pending.change)),
            Loss::Tail => {
                let reached = random.random_range(0..=self.pending.len());
                self.pending[..reached].iter().for_each(|pending| apply(&mut bytes, &pending.change));
                if let Some(pending) = self.pending.get(reached) {
                    tear(&mut bytes, &pending.change, random);
                }
            }
            Loss::Scattered => {
                for Pending { change, .. } in &self.pending {
                    match random.random_range(0..3) {
                        0 => {}
                        1 => apply(&mut bytes, change),
                        _ => tear(&mut bytes, change, random),
                    }
                }
            }
        }
        bytes
    }
}

fn rename(names: &mut BTreeMap<String, Inode>, change: &NameChange) {
    match change {
        NameChange::Link(name, inode) => {
            names.insert(name.clone(), *inode);
        }
        NameChange::Unlink(name) => {
            names.remove(name);
        }
    }
}

fn apply(bytes: &mut Vec<u8>, change: &Change) {
    match change {
        Change::Write { offset, bytes: written } => put(bytes, *offset, written),
        Change::Truncate { length } => bytes.resize(*length, 0),
    }
}

/// Some sectors of a write; a truncation is there or not.
fn tear(bytes: &mut Vec<u8>, change: &Change, random: &mut impl Rng) {
    match change {
        Change::Write { offset, bytes: written } => {
            let mut at = 0;
            while at < written.len() {
                let end = (at + SECTOR - (offset + at) % SECTOR).min(written.len());
                if random.random() {
                    put(bytes, offset + at, &written[at..end]);
                }
                at = end;
            }
        }
        Change::Truncate { .. } => {
            if random.random() {
                apply(bytes, change);
            }
        }
    }
}

fn put(bytes: &mut Vec<u8>, offset: usize, written: &[u8]) {
    if bytes.len() < offset + written.len() {
        bytes.resize(offset + written.len(), 0);
    }
    bytes[offset..offset + written.len()].copy_from_slice(written);
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use rand::rngs::StdRng;

    const LOG: &str = "/h/log";

    fn wrote(offset: u64, bytes: &[u8]) -> Happening {
        Happening::Wrote { path: LOG.to_owned(), offset, bytes: bytes.to_vec() }
    }

    fn synced(path: &str) -> [Happening; 2] {
        let path = path.to_owned();
        [
            Happening::SyncBegan { thread: 1, path: path.clone() },
            Happening::SyncEnded { thread: 1, path, worked: true },
        ]
    }

    fn disk(happenings: impl IntoIterator<Item = Happening>) -> Disk {
        let mut disk = Disk::new("/h");
        happenings.into_iter().for_each(|happening| disk.happen(&happening));
        disk
    }

    fn after(disk: &Disk, loss: Loss, seed: u64) -> Option<Vec<u8>> {
        disk.image(loss, &mut StdRng::seed_from_u64(seed)).remove(LOG)
    }

    #[test]
    fn only_what_was_synced_is_sure() {
        let disk = disk(
            [wrote(0, b"kept")].into_iter().chain(synced(LOG)).chain(synced("/h")).chain([wrote(4, b"lost")]),
        );
        assert_eq!(after(&disk, Loss::Everything, 1).unwrap(), b"kept");
        assert_eq!(after(&disk, Loss::Nothing, 1).unwrap(), b"keptlost");
    }

    #[test]
    fn a_file_has_no_sure_name_before_its_folder_is_synced() {
        let unnamed = disk([wrote(0, b"kept")].into_iter().chain(synced(LOG)));
        assert_eq!(after(&unnamed, Loss::Everything, 1), None);
        assert_eq!(after(&unnamed, Loss::Nothing, 1).unwrap(), b"kept");
    }

    #[test]
    fn a_sync_covers_only_what_was_written_before_it_began_and_only_if_it_worked() {
        let [began, ended] = synced(LOG);
        let late = disk(
            synced("/h")
                .into_iter()
                .chain([wrote(0, b"a"), began.clone(), wrote(1, b"b"), ended])
                .chain(synced("/h")),
        );
        assert_eq!(after(&late, Loss::Everything, 1).unwrap(), b"a");
        let failed = Happening::SyncEnded { thread: 1, path: LOG.to_owned(), worked: false };
        let failed = disk([wrote(0, b"a"), began, failed].into_iter().chain(synced("/h")));
        assert_eq!(after(&failed, Loss::Everything, 1).unwrap(), b"");
    }

    #[test]
    fn what_a_failed_sync_did_not_write_is_gone_unless_it_is_written_again() {
        let [began, ended] = synced(LOG);
        let failed = Happening::SyncEnded { thread: 1, path: LOG.to_owned(), worked: false };
        let start = || synced("/h").into_iter().chain([wrote(0, b"lost"), began.clone(), failed.clone()]);
        let again = disk(start().chain([began.clone(), ended.clone()]).chain(synced("/h")));
        assert_eq!(after(&again, Loss::Everything, 1).unwrap(), b"", "a second sync does not help");
        let rewritten =
            disk(start().chain([wrote(0, b"kept"), began.clone(), ended.clone()]).chain(synced("/h")));
        assert_eq!(after(&rewritten, Loss::Everything, 1).unwrap(), b"kept");
    }

    #[test]
    fn a_torn_write_leaves_whole_sectors() {
        let disk = disk(synced("/h").into_iter().chain([wrote(500, &[7; 1_200])]).chain(synced("/h")));
        let mut seen = std::collections::BTreeSet::new();
        for seed in 0..200 {
            let bytes = after(&disk, Loss::Scattered, seed).unwrap();
            let sector = |range: std::ops::Range<usize>| {
                let sector = bytes.get(range).unwrap_or_default();
                assert!(sector.windows(2).all(|pair| pair[0] == pair[1]), "a sector is torn");
                sector.first() == Some(&7)
            };
            seen.insert([sector(500..512), sector(512..1_024), sector(1_024..1_536), sector(1_536..1_700)]);
        }
        assert_eq!(seen.len(), 16, "every mixture of four sectors appears");
    }

    #[test]
    fn a_deleted_file_may_come_back_until_its_folder_is_synced() {
        let written = || [wrote(0, b"old")].into_iter().chain(synced(LOG)).chain(synced("/h"));
        let gone = [Happening::Unlinked { path: LOG.to_owned() }];
        let deleted = disk(written().chain(gone.clone()));
        assert_eq!(after(&deleted, Loss::Everything, 1).unwrap(), b"old");
        assert_eq!(after(&deleted, Loss::Nothing, 1), None);
        let sure = disk(written().chain(gone).chain(synced("/h")).chain([wrote(0, b"new")]));
        assert_eq!(after(&sure, Loss::Everything, 1), None);
    }
}
