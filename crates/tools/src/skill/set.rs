//! All skills of a server: found, read, started, trusted, and called by name.

use super::database;
use super::folder::{SkillFolder, skill_folders};
use super::keeper::Keeper;
use super::listing::definitions;
use super::manifest::{MANIFEST_FILE, SkillManifest};
use super::problem::{Place, Severity, SkillProblem};
use super::program;
use super::wire::EngineSetup;
use super::worker::LivingThreads;
use super::{SkillIsolation, SkillOptions};
use crate::awaiting::{NewCode, NewOffer, Offer, awaiting, digest, hex, unpinned};
use crate::registry::ToolProvider;
use crate::tool::{CallContext, Mutation, ToolCallError, ToolDefinition, ToolName, ToolOutcome, ToolRunner};
use crate::trust::{PinGroup, SeenTrust, TrustStore, TrustStoreError, is_other_code, pin_group, trust_group};
use async_trait::async_trait;
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{PoisonError, RwLock};
use tokio::sync::Mutex;

/// A skill that was loaded.
pub struct Skill {
    pub manifest: SkillManifest,
    pub folder: PathBuf,
    pub tools: Vec<ToolDefinition>,
    pub state: SkillState,
    /// Where it was read from.
    home: SkillFolder,
    code: [u8; 32],
    keeper: Keeper,
}

/// Whether a skill's tools are offered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SkillState {
    Ready,
    /// These tools say something else of themselves than when they were trusted.
    Changed(Vec<ToolName>),
    /// Its code is another one than when it was trusted, whatever its tools say of themselves.
    CodeChanged,
}

/// Every loaded skill, by id.
pub struct SkillSet {
    skills: BTreeMap<String, Skill>,
    /// Skills that had changed when they were loaded and were trusted since, with the tools that they list since then.
    trusted_since: RwLock<BTreeMap<String, Vec<ToolDefinition>>>,
}

/// Why a skill cannot be trusted anew.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TrustError {
    #[error("there is no skill {0:?}")]
    NoSkill(String),
    /// A person decides about what was shown, and this is something else.
    #[error(
        "{0:?} is not what was shown any more, so nothing was trusted; `cortex skill trust {0}` shows it as it is now and trusts that"
    )]
    NotAsShown(String),
    /// It was not started while its code was not trusted, and now it cannot be.
    #[error("{0}")]
    Broken(String),
    #[error(transparent)]
    Store(#[from] TrustStoreError),
}

impl SkillSet {
    /// Loads every skill of the configured folders, or tells everything that is wrong with any of them.
    pub async fn load(options: &SkillOptions, trusted: &dyn TrustStore) -> Result<Self, Vec<SkillProblem>> {
        database::prepare(&options.data_dir).map_err(|problem| vec![problem])?;
        let unreadable = |error: TrustStoreError, path: &Path| {
            vec![SkillProblem::error(path, error.to_string(), "look at the server's database")]
        };
        let known = trusted.all().await.map_err(|error| unreadable(error, &options.data_dir))?;
        let (mut loaded, problems) = Self::read(options, &known).await;
        if !problems.is_empty() {
            return Err(problems);
        }
        for skill in loaded.skills.values_mut().filter(|skill| skill.state != SkillState::CodeChanged) {
            let group = PinGroup::Skill(&skill.manifest.id, skill.code);
            let found = pin_group(group, &skill.tools, trusted).await;
            let found = found.map_err(|error| unreadable(error, &skill.folder.join(MANIFEST_FILE)))?;
            let named: Vec<ToolName> = found.changed.into_iter().chain(found.added).collect();
            skill.state = match named.is_empty() {
                false => SkillState::Changed(named),
                true => SkillState::Ready,
            };
        }
        Ok(loaded)
    }

    /// The skills of the configured folders as far as they are in order, and what is wrong with the others. Nothing
    /// is pinned, and code that is not trusted does not run.
    pub async fn survey(options: &SkillOptions, trusted: &SeenTrust) -> (Self, Vec<SkillProblem>) {
        Self::read(options, trusted.pins()).await
    }

    /// Code that is another one than these pins have is not started.
    async fn read(options: &SkillOptions, known: &HashMap<String, [u8; 32]>) -> (Self, Vec<SkillProblem>) {
        let mut problems = Vec::new();
        let mut folders = Vec::new();
        for dir in &options.dirs {
            match skill_folders(dir) {
                Ok(found) => folders.extend(found),
                Err(more) => problems.extend(more),
            }
        }
        let opened =
            futures::future::join_all(folders.iter().map(|folder| open(folder, options, known))).await;
        let mut skills: BTreeMap<String, Skill> = BTreeMap::new();
        for (folder, opened) in folders.iter().zip(opened) {
            match opened {
                Ok((skill, findings)) => {
                    report(&findings);
                    if let Some(first) = skills.get(&skill.manifest.id) {
                        problems.push(duplicate(folder, &skill, first));
                    } else {
                        skills.insert(skill.manifest.id.clone(), skill);
                    }
                }
                Err(more) => problems.extend(more),
            }
        }
        (Self { skills, trusted_since: RwLock::default() }, problems)
    }

    /// Loads the skill of one folder, for its author: nothing is pinned, and its tools are offered as they are.
    pub async fn load_folder(
        dir: &Path,
        options: &SkillOptions,
    ) -> Result<(Self, Vec<SkillProblem>), Vec<SkillProblem>> {
        Self::read_folder(dir, options, &HashMap::new()).await
    }

    /// The same for whoever decides about it: code that is not trusted does not run.
    pub async fn look_at_folder(
        dir: &Path,
        options: &SkillOptions,
        trusted: &SeenTrust,
    ) -> Result<Self, Vec<SkillProblem>> {
        Self::read_folder(dir, options, trusted.pins()).await.map(|(skills, _)| skills)
    }

    async fn read_folder(
        dir: &Path,
        options: &SkillOptions,
        known: &HashMap<String, [u8; 32]>,
    ) -> Result<(Self, Vec<SkillProblem>), Vec<SkillProblem>> {
        let folder = SkillFolder::open(dir).map_err(|problem| vec![problem])?;
        let (skill, findings) = open(&folder, options, known).await?;
        let skills = BTreeMap::from([(skill.manifest.id.clone(), skill)]);
        Ok((Self { skills, trusted_since: RwLock::default() }, findings))
    }

    pub fn skills(&self) -> impl Iterator<Item = &Skill> {
        self.skills.values()
    }

    /// The tools of the skills that are ready.
    pub fn ready_definitions(&self) -> Vec<ToolDefinition> {
        let ready = self.skills.values().filter(|skill| skill.state == SkillState::Ready);
        ready.flat_map(|skill| skill.tools.iter().cloned()).collect()
    }

    /// Trusts a skill as it is now; its tools are offered at once.
    pub async fn trust(&self, id: &str, trusted: &dyn TrustStore) -> Result<(), TrustError> {
        let skill = self.skills.get(id).ok_or_else(|| TrustError::NoSkill(id.to_owned()))?;
        let tools = match self.state(skill) {
            SkillState::CodeChanged => skill.list_tools().await.map_err(TrustError::Broken)?,
            SkillState::Ready | SkillState::Changed(_) => self.tools_of(skill),
        };
        trust_group(PinGroup::Skill(id, skill.code), &tools, trusted).await?;
        if skill.state != SkillState::Ready {
            self.trusted_since.write().unwrap_or_else(PoisonError::into_inner).insert(id.to_owned(), tools);
        }
        Ok(())
    }

    /// What this skill offers now.
    pub(crate) fn offer<'a>(&self, id: &'a str) -> Option<Offer<'a>> {
        let skill = self.skills.get(id)?;
        let code = NewCode {
            folder: skill.folder.components().collect(),
            sha256: hex(&skill.code),
            hosts: skill.manifest.permissions.hosts.clone(),
        };
        let group = PinGroup::Skill(id, skill.code);
        Some(Offer { group, definitions: self.tools_of(skill), code: Some(code) })
    }

    /// What of these skills waits for trust.
    pub fn awaiting_trust(&self, trusted: &SeenTrust) -> Vec<NewOffer> {
        let row = |id: &String| awaiting(id, self.offer(id).into_iter().collect(), trusted.pins(), |_| None);
        self.skills.keys().filter_map(row).collect()
    }

    /// What trusting these skills would pin: what waits, and whole what nobody has seen here before.
    pub fn would_pin(&self, trusted: &SeenTrust) -> Vec<NewOffer> {
        let row = |id: &String| {
            let offers: Vec<Offer<'_>> = self.offer(id).into_iter().collect();
            unpinned(id, digest(&offers), offers, trusted.pins(), |_| None)
        };
        self.skills.keys().filter_map(row).collect()
    }

    /// What it lists, as it is trusted now.
    fn tools_of(&self, skill: &Skill) -> Vec<ToolDefinition> {
        let since = self.trusted_since.read().unwrap_or_else(PoisonError::into_inner);
        since.get(&skill.manifest.id).unwrap_or(&skill.tools).clone()
    }

    /// Whether its tools are offered.
    pub fn state(&self, skill: &Skill) -> SkillState {
        if self.is_trusted_since(&skill.manifest.id) { SkillState::Ready } else { skill.state.clone() }
    }

    fn is_trusted_since(&self, id: &str) -> bool {
        self.trusted_since.read().unwrap_or_else(PoisonError::into_inner).contains_key(id)
    }
}

#[async_trait]
impl ToolRunner for SkillSet {
    async fn run(
        &self,
        name: &ToolName,
        arguments_json: &str,
        context: &CallContext,
    ) -> Result<ToolOutcome, ToolCallError> {
        let Some(skill) = self.skills.get(name.skill()) else {
            return Err(ToolCallError::NotRun(format!("there is no skill {:?}", name.skill())));
        };
        match self.state(skill) {
            SkillState::Ready => {
                let tool = self.tools_of(skill).into_iter().find(|tool| tool.name == *name);
                let mutation = tool.map_or(Mutation::Undeclared, |tool| tool.mutation);
                skill.keeper.call(name, mutation, arguments_json, context).await
            }
            state @ (SkillState::Changed(_) | SkillState::CodeChanged) => {
                Err(ToolCallError::NotRun(format!("{}: {state}", name.skill())))
            }
        }
    }
}

/// Only what was trusted since the start: the rest is in the registry for good.
#[async_trait]
impl ToolProvider for SkillSet {
    fn definitions(&self) -> Vec<ToolDefinition> {
        let since = self.trusted_since.read().unwrap_or_else(PoisonError::into_inner);
        since.values().flatten().cloned().collect()
    }
}

impl Skill {
    /// Starts it and asks for its tools.
    async fn list_tools(&self) -> Result<Vec<ToolDefinition>, String> {
        let told = |problems: &[SkillProblem]| {
            problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
        };
        let listed = self.keeper.load().await;
        let listed = listed
            .map_err(|trace| told(&[load_problem(&self.home, &self.manifest, &self.keeper, &trace)]))?;
        let (tools, findings) =
            definitions(&self.home, &self.manifest, listed).await.map_err(|problems| told(&problems))?;
        report(&findings);
        Ok(tools)
    }

    /// Threads of its engines that have not ended: one while all is well, more when calls hang in native code.
    pub fn living_threads(&self) -> usize {
        self.keeper.living.now()
    }

    /// The child process that waits for a call, with `skillIsolation: "process"`.
    pub async fn process_id(&self) -> Option<u32> {
        self.keeper.process_id().await
    }
}

impl std::fmt::Display for SkillState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Ready => f.write_str("ready"),
            Self::CodeChanged => {
                f.write_str("disabled until it is trusted again: its code changed since it was trusted")
            }
            Self::Changed(tools) => {
                let names: Vec<&str> = tools.iter().map(ToolName::as_str).collect();
                write!(
                    f,
                    "disabled until it is trusted again: {} changed since it was trusted",
                    names.join(", ")
                )
            }
        }
    }
}

/// Looks at one skill's folder as a start would, and lists what is wrong and what could be better.
pub async fn check_skill(dir: &Path) -> Vec<SkillProblem> {
    let options = SkillOptions { isolation: SkillIsolation::Thread, ..SkillOptions::default() };
    match SkillSet::load_folder(dir, &options).await {
        Ok((_, findings)) => findings,
        Err(problems) => problems,
    }
}

async fn open(
    folder: &SkillFolder,
    options: &SkillOptions,
    known: &HashMap<String, [u8; 32]>,
) -> Result<(Skill, Vec<SkillProblem>), Vec<SkillProblem>> {
    let manifest = folder.manifest()?;
    let (program, traces, code) = program::build(folder, &manifest.main)?;
    let code = code.with(&manifest.permissions);
    let keeper = Keeper {
        setup: EngineSetup {
            skill: manifest.id.clone(),
            program,
            config_json: options.config_json.get(&manifest.id).cloned().unwrap_or_else(|| "{}".to_owned()),
            db: database::place(&manifest, options).map_err(|problem| vec![problem])?,
            heap_mib: options.heap_mib,
        },
        traces,
        hosts: manifest.permissions.hosts.clone(),
        isolation: options.isolation.clone(),
        egress: options.egress.clone(),
        idle: Mutex::new(None),
        living: LivingThreads::default(),
    };
    let (home, shown) = (folder.clone(), folder.shown(""));
    // What nobody trusts yet does not run, not even to say what it is.
    if is_other_code(PinGroup::Skill(&manifest.id, code), known) {
        let state = SkillState::CodeChanged;
        return Ok((
            Skill { manifest, folder: shown, tools: Vec::new(), state, home, code, keeper },
            Vec::new(),
        ));
    }
    let listed =
        keeper.load().await.map_err(|trace| vec![load_problem(folder, &manifest, &keeper, &trace)])?;
    let (tools, findings) = definitions(folder, &manifest, listed).await?;
    Ok((Skill { manifest, folder: shown, tools, state: SkillState::Ready, home, code, keeper }, findings))
}

fn load_problem(
    folder: &SkillFolder,
    manifest: &SkillManifest,
    keeper: &Keeper,
    trace: &str,
) -> SkillProblem {
    let (file, place) = match keeper.traces.first_place(trace) {
        Some((module, place)) => (module, Some(place)),
        None => (manifest.main.clone(), None),
    };
    let told = keeper.traces.told(trace);
    let message = told.lines().next().unwrap_or("it cannot be loaded").to_owned();
    SkillProblem::error(
        &folder.shown(&file),
        message,
        "a skill must load and list its tools without an error",
    )
    .at(place)
}

fn duplicate(folder: &SkillFolder, second: &Skill, first: &Skill) -> SkillProblem {
    let id = &second.manifest.id;
    let text = folder.read(MANIFEST_FILE).unwrap_or_default();
    let message = format!("the skill {id:?} and its tools are already in {}", first.folder.display());
    SkillProblem::error(&folder.shown(MANIFEST_FILE), message, "rename or remove one of the two")
        .at(Place::of_word(&text, id))
}

fn report(findings: &[SkillProblem]) {
    for finding in findings {
        match finding.severity {
            Severity::Warning => tracing::warn!("{finding}"),
            Severity::Error => tracing::error!("{finding}"),
        }
    }
}
