//! What waits for a person's trust, and the digest that binds the decision to what was shown.

use crate::egress::HostPolicy;
use crate::tool::ToolDefinition;
use crate::trust::{Pin, PinGroup, is_first_seen, is_other_code, pins_of};
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::path::PathBuf;

/// Everything of one name that one decision would trust, as far as it is new.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewOffer {
    /// The skill's id or the server's name, as `cortex skill trust` takes it.
    pub name: String,
    /// Over everything that trust would pin.
    pub digest: String,
    pub code: Option<NewCode>,
    /// In the order of their names.
    pub tools: Vec<NewTool>,
}

/// Code of a skill that nobody trusts yet. It does not run, so its tools are not known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewCode {
    pub folder: PathBuf,
    /// Over its files and permissions.
    pub sha256: String,
    pub hosts: HostPolicy,
}

/// A tool that is new, or says something else of itself than when it was trusted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewTool {
    pub definition: ToolDefinition,
    pub is_new: bool,
    /// What it said when it was trusted, where that is still known.
    pub old_description: Option<String>,
}

/// What a skill or a server offers now, trusted or not.
#[derive(Debug)]
pub(crate) struct Offer<'a> {
    pub(crate) group: PinGroup<'a>,
    pub(crate) definitions: Vec<ToolDefinition>,
    /// What is said of the code, should it be another one.
    pub(crate) code: Option<NewCode>,
}

impl Offer<'_> {
    fn pins(&self) -> Vec<Pin> {
        pins_of(self.group, &self.definitions)
    }
}

/// What is shown and what is trusted are the same when these are.
pub(crate) fn digest(offers: &[Offer<'_>]) -> String {
    let mut pins: Vec<Pin> = offers.iter().flat_map(Offer::pins).collect();
    pins.sort_unstable();
    let mut hasher = Sha256::new();
    for (name, hash) in pins {
        hasher.update(name.as_bytes());
        hasher.update([0]);
        hasher.update(hash);
    }
    hex(&hasher.finalize())
}

/// What of these offers of one name waits. What is seen for the first time is trusted without a question.
pub(crate) fn awaiting(
    name: &str,
    offers: Vec<Offer<'_>>,
    known: &HashMap<String, [u8; 32]>,
    old_description: impl Fn(&ToolDefinition) -> Option<String>,
) -> Option<NewOffer> {
    let digest = digest(&offers);
    let seen = offers.into_iter().filter(|offer| !is_first_seen(offer.group, known));
    unpinned(name, digest, seen.collect(), known, old_description)
}

/// What trusting these offers would pin, also of what is seen for the first time.
pub(crate) fn unpinned(
    name: &str,
    digest: String,
    offers: Vec<Offer<'_>>,
    known: &HashMap<String, [u8; 32]>,
    old_description: impl Fn(&ToolDefinition) -> Option<String>,
) -> Option<NewOffer> {
    let (mut code, mut tools) = (None, Vec::new());
    for offer in offers {
        if is_first_seen(offer.group, known) || is_other_code(offer.group, known) {
            code = offer.code;
        }
        for definition in offer.definitions {
            let pinned = known.get(definition.name.as_str());
            if pinned != Some(&definition.hash()) {
                let old_description = old_description(&definition);
                tools.push(NewTool { is_new: pinned.is_none(), old_description, definition });
            }
        }
    }
    tools.sort_by(|one, other| one.definition.name.cmp(&other.definition.name));
    let waits = code.is_some() || !tools.is_empty();
    waits.then(|| NewOffer { name: name.to_owned(), digest, code, tools })
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
