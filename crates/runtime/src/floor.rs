//! The workspace files that stand under every prompt, read anew when they may have changed.

use cortex_brain::Floor;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tokio::sync::Mutex;

/// Largest file that goes into a prompt; the rest is left out.
const FILE_BYTES_MAX: u64 = 64 * 1024;
/// How old a read may be; people edit these files while the server runs.
const FRESH_FOR: Duration = Duration::from_secs(1);

pub(crate) struct FloorReader {
    workspace: PathBuf,
    last: Mutex<Option<(Instant, Floor)>>,
}

impl FloorReader {
    pub(crate) fn new(workspace: PathBuf) -> Self {
        Self { workspace, last: Mutex::new(None) }
    }

    pub(crate) async fn read(&self) -> Floor {
        let mut last = self.last.lock().await;
        if let Some((at, floor)) = last.as_ref()
            && at.elapsed() < FRESH_FOR
        {
            return floor.clone();
        }
        let floor = Floor {
            soul: read_file(&self.workspace, "SOUL.md").await,
            identity: read_file(&self.workspace, "IDENTITY.md").await,
            user: read_file(&self.workspace, "USER.md").await,
            memory: read_file(&self.workspace, "MEMORY.md").await,
        };
        *last = Some((Instant::now(), floor.clone()));
        floor
    }
}

/// A missing or unreadable file is an empty one: the assistant answers without it.
async fn read_file(workspace: &Path, name: &str) -> String {
    use tokio::io::AsyncReadExt;
    let path = workspace.join(name);
    let mut bytes = Vec::new();
    let read = async {
        let file = tokio::fs::File::open(&path).await?;
        file.take(FILE_BYTES_MAX).read_to_end(&mut bytes).await
    };
    match read.await {
        Ok(_) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(error) => {
            tracing::warn!(path = %path.display(), %error, "A workspace file cannot be read and is left out");
            String::new()
        }
    }
}
