//! All tools of a server, opened once at its start: built-ins, calendars, skills and MCP servers.

use crate::awaiting::{NewOffer, Offer, awaiting, digest};
use crate::calendar::{CalendarFetch, CalendarSource, CalendarTools};
use crate::http_get::HttpGet;
use crate::mcp::{McpServerStatus, McpServers, McpSettings};
use crate::registry::{Registry, RegistryBuilder, RegistryError, ToolProvider};
use crate::skill::{SkillOptions, SkillProblem, SkillSet, TrustError};
use crate::time_now::TimeNow;
use crate::tool::{ToolNameError, ToolRunner};
use crate::trust::{PinGroup, TrustStore, TrustStoreError};
use crate::trusted_mcp::TrustedMcp;
use jiff::tz::TimeZone;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

/// What is to be in it.
pub struct ToolboxConfig {
    /// The guard in here is that of every tool.
    pub skills: SkillOptions,
    pub calendars: Vec<CalendarSource>,
    /// Where fetched calendars are kept.
    pub calendar_cache: PathBuf,
    pub mcp_servers: McpServers,
    pub mcp: McpSettings,
    /// The zone that is meant where none is named.
    pub timezone: TimeZone,
    /// More tools, such as a test's own.
    pub more: RegistryBuilder,
}

impl ToolboxConfig {
    /// The built-ins alone; `data` takes what they keep.
    pub fn built_in(data: PathBuf) -> Self {
        Self {
            skills: SkillOptions { data_dir: data.join("skills"), ..SkillOptions::default() },
            calendars: Vec::new(),
            calendar_cache: data.join("calendars"),
            mcp_servers: McpServers::default(),
            mcp: McpSettings::default(),
            timezone: TimeZone::UTC,
            more: Registry::builder(),
        }
    }
}

/// Every tool that does not need the flow itself.
pub struct Toolbox {
    skills: Arc<SkillSet>,
    mcp: Arc<TrustedMcp>,
}

/// Why it cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum ToolboxError {
    #[error("{}", lines(.0))]
    Skills(Vec<SkillProblem>),
    #[error(transparent)]
    Registry(#[from] RegistryError),
    #[error(transparent)]
    Name(#[from] ToolNameError),
}

fn lines(problems: &[SkillProblem]) -> String {
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

impl Toolbox {
    /// Loads skills and begins to connect to MCP servers. The builder has every tool in it.
    pub async fn open(
        config: ToolboxConfig,
        trusted: Arc<dyn TrustStore>,
    ) -> Result<(Self, RegistryBuilder), ToolboxError> {
        let skills = Arc::new(SkillSet::load(&config.skills, &*trusted).await.map_err(ToolboxError::Skills)?);
        let egress = Arc::clone(&config.skills.egress);
        let time: Arc<dyn ToolRunner> = Arc::new(TimeNow::new(config.timezone.clone()));
        let http: Arc<dyn ToolRunner> = Arc::new(HttpGet::new(Arc::clone(&egress)));
        let fetch: Arc<dyn CalendarFetch> = egress;
        let calendars = CalendarTools::new(config.calendars, config.timezone, config.calendar_cache, fetch);
        let calendars: Arc<dyn ToolRunner> = Arc::new(calendars);
        let skill_runner: Arc<dyn ToolRunner> = Arc::clone(&skills) as Arc<dyn ToolRunner>;
        let mcp = Arc::new(TrustedMcp::connect(config.mcp_servers, config.mcp, trusted));
        let tools = config
            .more
            .add(TimeNow::definition()?, time)?
            .add(HttpGet::definition()?, http)?
            .add_all(CalendarTools::definitions()?, &calendars)?
            .add_all(skills.ready_definitions(), &skill_runner)?
            .add_live(Arc::clone(&skills) as Arc<dyn ToolProvider>)
            .add_live(Arc::clone(&mcp) as Arc<dyn ToolProvider>);
        Ok((Self { skills, mcp }, tools))
    }

    pub fn skills(&self) -> &SkillSet {
        &self.skills
    }

    pub fn mcp_status(&self) -> Vec<McpServerStatus> {
        self.mcp.status()
    }

    /// What a person can trust, by name.
    pub async fn awaiting_trust(&self) -> Result<Vec<NewOffer>, TrustStoreError> {
        let known = self.mcp.trusted().all().await?;
        let skills = self.skills.skills().map(|skill| skill.manifest.id.clone());
        let names: BTreeSet<String> = skills.chain(self.mcp.names()).collect();
        let row = |name: &String| {
            awaiting(name, self.offers(name), &known, |tool| self.mcp.trusted_description(tool))
        };
        Ok(names.iter().filter_map(row).collect())
    }

    fn offers<'a>(&self, id: &'a str) -> Vec<Offer<'a>> {
        self.skills.offer(id).into_iter().chain(self.mcp.offer(id)).collect()
    }

    /// Trusts the skill and the MCP server of this name if they still are what this digest was shown with; their tools
    /// are offered at once.
    pub async fn trust(&self, id: &str, shown: &str) -> Result<(), TrustError> {
        // What is compared is what is trusted: a server may describe itself anew at any moment.
        let offers = self.offers(id);
        if offers.is_empty() {
            return Err(TrustError::NoSkill(id.to_owned()));
        }
        if digest(&offers) != shown {
            return Err(TrustError::NotAsShown(id.to_owned()));
        }
        for offer in &offers {
            match offer.group {
                PinGroup::Skill(..) => self.skills.trust(id, self.mcp.trusted()).await?,
                PinGroup::Server(_) => self.mcp.trust(offer).await?,
            }
        }
        Ok(())
    }

    /// Ends the MCP servers and waits until they are gone.
    pub async fn stop(&self) {
        self.mcp.stop().await;
    }
}
