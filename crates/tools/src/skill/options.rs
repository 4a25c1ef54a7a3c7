//! What a server says about its skills.

use crate::egress::{Egress, EgressConfig};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

/// How and where skills run.
#[derive(Clone)]
pub struct SkillOptions {
    /// `skillDirs`: each folder below one of them is a skill.
    pub dirs: Vec<PathBuf>,
    /// Where each skill's private database lies.
    pub data_dir: PathBuf,
    /// `skillConfig.<id>` as JSON text.
    pub config_json: BTreeMap<String, String>,
    /// `skillHeapMiB`.
    pub heap_mib: u32,
    pub isolation: SkillIsolation,
    /// The guard that every fetch of a skill passes.
    pub egress: Arc<Egress>,
}

/// `skillIsolation`: where an engine runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SkillIsolation {
    /// On a thread of its own; one that hangs in native code is left behind.
    Thread,
    /// In a child process, which is killed; the program must end in [`run_skill_child`](crate::run_skill_child).
    Process { program: PathBuf, args: Vec<String> },
}

impl Default for SkillOptions {
    fn default() -> Self {
        Self {
            dirs: Vec::new(),
            data_dir: PathBuf::from("skill-data"),
            config_json: BTreeMap::new(),
            heap_mib: 32,
            isolation: SkillIsolation::Thread,
            egress: Arc::new(Egress::new(EgressConfig::default())),
        }
    }
}
