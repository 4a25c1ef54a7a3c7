//! What must stand beside every absolute figure: how busy the machine was and how fast its disk syncs.

use serde::Serialize;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Instant;

const SYNCS: usize = 101;
const PAGE_BYTES: usize = 4096;
/// No disk is this fast; a folder in memory says nothing about durable writes.
const DISK_SYNC_MS_MIN: f64 = 0.005;
/// A disk whose syncs change more than this during a run is busy with something else.
const DISK_SPREAD_MAX: f64 = 2.0;

/// The machine during a run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Machine {
    /// The load average of the last minute when the run began.
    pub(crate) load_average: f64,
    pub(crate) fdatasync_p50_ms: f64,
    /// The same when the run was over.
    pub(crate) fdatasync_p50_after_ms: f64,
    pub(crate) cores: usize,
}

impl Machine {
    pub(crate) fn look(folder: &Path) -> io::Result<Self> {
        let fdatasync_p50_ms = fdatasync_p50_ms(folder)?;
        Ok(Self {
            load_average: load_average().unwrap_or(f64::NAN),
            fdatasync_p50_ms,
            fdatasync_p50_after_ms: fdatasync_p50_ms,
            cores: std::thread::available_parallelism().map_or(1, usize::from),
        })
    }

    pub(crate) fn look_again(self, folder: &Path) -> io::Result<Self> {
        Ok(Self { fdatasync_p50_after_ms: fdatasync_p50_ms(folder)?, ..self })
    }

    /// Whether figures of durable writes mean something: there is a disk, and it was ours.
    pub(crate) fn has_a_steady_disk(&self) -> bool {
        let (before, after) = (self.fdatasync_p50_ms, self.fdatasync_p50_after_ms);
        before.min(after) >= DISK_SYNC_MS_MIN && before.max(after) <= before.min(after) * DISK_SPREAD_MAX
    }
}

fn load_average() -> Option<f64> {
    std::fs::read_to_string("/proc/loadavg").ok()?.split(' ').next()?.parse().ok()
}

/// The median time to write one page over and sync it: what the smallest durable write costs in a log that has stopped
/// growing.
fn fdatasync_p50_ms(folder: &Path) -> io::Result<f64> {
    let path = folder.join("sync-probe");
    let file = File::create(&path)?;
    file.write_all_at(&vec![7; PAGE_BYTES * SYNCS], 0)?;
    file.sync_all()?;
    let mut times = Vec::with_capacity(SYNCS);
    for page in 0..SYNCS {
        file.write_all_at(&[8; PAGE_BYTES], (page * PAGE_BYTES) as u64)?;
        let started = Instant::now();
        file.sync_data()?;
        times.push(started.elapsed());
    }
    std::fs::remove_file(&path)?;
    times.sort_unstable();
    Ok(times[SYNCS / 2].as_secs_f64() * 1_000.0)
}
