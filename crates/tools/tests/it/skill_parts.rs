//! What the skill tests share: the skills of `tests/skills`, a memory of what is trusted, and a way to call.

use async_trait::async_trait;
use cortex_tools::{
    CallContext, HostPolicy, Registry, SkillIsolation, SkillOptions, SkillSet, ToolCallError, ToolRunner,
    TrustStore, TrustStoreError,
};
use cortex_types::{Millis, TopicRef};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

/// Monday, 27 July 2026, 10:00 UTC.
pub(crate) const NOW: Millis = Millis(1_785_146_400_000);
pub(crate) const PATIENT: Duration = Duration::from_secs(20);

/// Remembers what is trusted as long as the test lasts.
#[derive(Default)]
pub(crate) struct Pins(Mutex<HashMap<String, [u8; 32]>>);

#[async_trait]
impl TrustStore for Pins {
    async fn all(&self) -> Result<HashMap<String, [u8; 32]>, TrustStoreError> {
        Ok(self.0.lock().unwrap().clone())
    }

    async fn put(&self, hashes: Vec<(String, [u8; 32])>) -> Result<(), TrustStoreError> {
        self.0.lock().unwrap().extend(hashes);
        Ok(())
    }
}

/// Loaded skills behind a registry, with a folder for their databases.
pub(crate) struct Skills {
    pub(crate) set: Arc<SkillSet>,
    pub(crate) registry: Arc<Registry>,
    data: TempDir,
}

impl Skills {
    /// The skills of `tests/skills`.
    pub(crate) async fn load() -> Self {
        Self::load_with(|_| {}).await
    }

    pub(crate) async fn load_with(change: impl FnOnce(&mut SkillOptions)) -> Self {
        let data = TempDir::new().unwrap();
        let mut options = options(&[fixtures()], data.path());
        change(&mut options);
        let set = Arc::new(SkillSet::load(&options, &Pins::default()).await.unwrap());
        let runner = Arc::clone(&set) as Arc<dyn ToolRunner>;
        let registry = Registry::builder().add_all(set.ready_definitions(), &runner).unwrap().build();
        Self { set, registry: Arc::new(registry), data }
    }

    pub(crate) async fn call(&self, name: &str, arguments: &str) -> Result<String, ToolCallError> {
        self.call_within(name, arguments, PATIENT).await
    }

    pub(crate) async fn call_within(
        &self,
        name: &str,
        arguments: &str,
        limit: Duration,
    ) -> Result<String, ToolCallError> {
        self.call_in(&context(), name, arguments, limit).await
    }

    pub(crate) async fn call_in(
        &self,
        context: &CallContext,
        name: &str,
        arguments: &str,
        limit: Duration,
    ) -> Result<String, ToolCallError> {
        let call = self.registry.check(name, arguments).await?;
        self.registry.run(&call, context, limit).await.map(|outcome| outcome.text)
    }

    pub(crate) fn living_threads(&self, skill: &str) -> usize {
        self.set.skills().find(|loaded| loaded.manifest.id == skill).unwrap().living_threads()
    }

    pub(crate) async fn process_id(&self, skill: &str) -> Option<u32> {
        self.set.skills().find(|loaded| loaded.manifest.id == skill).unwrap().process_id().await
    }

    pub(crate) fn database(&self, skill: &str) -> PathBuf {
        self.data.path().join("skills").join(skill).join(format!("{skill}.db"))
    }
}

pub(crate) fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/skills")
}

pub(crate) fn options(dirs: &[PathBuf], data_dir: &Path) -> SkillOptions {
    SkillOptions { dirs: dirs.to_vec(), data_dir: data_dir.join("skills"), ..SkillOptions::default() }
}

/// Runs engines in children, as `skillIsolation: "process"` does.
pub(crate) fn in_processes() -> SkillIsolation {
    SkillIsolation::Process { program: env!("CARGO_BIN_EXE_skill-child").into(), args: Vec::new() }
}

pub(crate) fn context() -> CallContext {
    CallContext {
        topic: TopicRef { source: "test".to_owned(), topic_key: "t".to_owned() },
        sight: cortex_types::Sight::Everything,
        event: None,
        user_id: "u".to_owned(),
        now: NOW,
        reach: HostPolicy::AnyPublic,
        cancel: CancellationToken::new(),
    }
}

/// A folder of skills written down in a test: paths and texts.
pub(crate) fn written(files: &[(&str, &str)]) -> TempDir {
    let folder = TempDir::new().unwrap();
    for (path, text) in files {
        let path = folder.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    folder
}
