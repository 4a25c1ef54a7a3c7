//! TypeScript skills: read from trusted folders, stripped of types, run in an engine of their own (D12).

mod child;
mod database;
mod engine;
mod fetch;
mod folder;
mod keeper;
mod listing;
mod manifest;
mod nesting;
mod options;
mod problem;
mod program;
mod set;
mod strip;
mod tally;
mod template;
mod wire;
mod worker;

pub use child::run_skill_child;
pub use manifest::{SkillManifest, SkillPermissions};
pub use options::{SkillIsolation, SkillOptions};
pub use problem::{Place, Severity, SkillProblem};
pub use set::{Skill, SkillSet, SkillState, TrustError, check_skill};
pub use template::{SKILL_TYPES, TemplateFile, skill_template};
