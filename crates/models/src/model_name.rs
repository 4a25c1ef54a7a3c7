//! Which model a provider is asked for.

use crate::config::TierModels;
use crate::model::Wire;

/// How the beginning of a model's name tells whose it is.
const FAMILIES: [(&str, Wire); 7] = [
    ("claude", Wire::Anthropic),
    ("gemini", Wire::Google),
    ("gpt-", Wire::Openai),
    ("chatgpt", Wire::Openai),
    ("o1", Wire::Openai),
    ("o3", Wire::Openai),
    ("o4", Wire::Openai),
];

/// Whose server answers at a profile's address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Site {
    /// The vendor's own: it has the vendor's models.
    Vendor,
    /// Somebody's compatible server: any model may be there.
    Other,
}

/// Where in the order a provider stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Position {
    First,
    Later,
}

/// The vendor's model for chat when nobody named one.
pub(crate) fn default_of(wire: Wire) -> &'static str {
    match wire {
        Wire::Anthropic => "claude-opus-4-5",
        Wire::Openai => "gpt-5.1",
        Wire::Google => "gemini-2.5-pro",
    }
}

/// The model that was named for this provider: by its profile, else by the `model` setting where that can be meant.
pub(crate) fn named<'a>(
    wire: Wire,
    site: Site,
    position: Position,
    tiers: &'a TierModels,
    setting: Option<&'a str>,
) -> Option<&'a str> {
    let own = [&tiers.pro, &tiers.flash, &tiers.lite].into_iter().flatten().next();
    let meant = setting.filter(|name| can_have(wire, site, position, name));
    own.map(String::as_str).or(meant)
}

/// Whether a provider may be asked for a model of this name.
pub(crate) fn can_have(wire: Wire, site: Site, position: Position, name: &str) -> bool {
    match (family(name), site) {
        (Some(family), Site::Vendor) => family == wire,
        (Some(family), Site::Other) => family == wire || wire == Wire::Openai,
        // A name that tells nothing is meant for a compatible server, or for whoever is asked first.
        (None, Site::Vendor) => position == Position::First,
        (None, Site::Other) => true,
    }
}

fn family(name: &str) -> Option<Wire> {
    FAMILIES.iter().find(|(beginning, _)| name.starts_with(beginning)).map(|(_, wire)| *wire)
}

#[cfg(test)]
mod tests {
    use super::{Position, Site, default_of, named};
    use crate::config::TierModels;
    use crate::model::Wire;

    #[track_caller]
    fn check(wire: Wire, site: Site, position: Position, setting: &str, expected: Option<&str>) {
        assert_eq!(named(wire, site, position, &TierModels::default(), Some(setting)), expected);
    }

    #[test]
    fn the_model_setting_goes_only_to_a_provider_that_can_have_it() {
        use Position::{First, Later};
        use Site::{Other, Vendor};
        use Wire::{Anthropic, Google, Openai};
        check(Anthropic, Vendor, Later, "claude-haiku-4-5", Some("claude-haiku-4-5"));
        check(Anthropic, Vendor, First, "gpt-4o", None);
        check(Openai, Vendor, Later, "gpt-4o", Some("gpt-4o"));
        check(Openai, Vendor, First, "brand-new", Some("brand-new"));
        check(Google, Vendor, Later, "brand-new", None);
        check(Openai, Other, Later, "claude-haiku-4-5", Some("claude-haiku-4-5"));
        check(Anthropic, Other, Later, "glm-4.6", Some("glm-4.6"));
        check(Google, Other, Later, "gpt-4o", None);
    }

    #[test]
    fn a_profile_that_names_its_models_gets_the_best_of_them() {
        let tiers = TierModels { pro: None, flash: Some("fast".to_owned()), lite: Some("tiny".to_owned()) };
        let chosen = named(Wire::Openai, Site::Vendor, Position::First, &tiers, Some("gpt-4o"));
        assert_eq!(chosen, Some("fast"));
    }

    #[test]
    fn every_default_has_a_price() {
        let prices = crate::PriceTable::built_in();
        for wire in [Wire::Anthropic, Wire::Openai, Wire::Google] {
            assert!(prices.price_of(default_of(wire)).is_some(), "{wire:?}");
        }
    }
}
