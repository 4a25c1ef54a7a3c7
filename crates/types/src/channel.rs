//! Channels: what each may do.

use crate::status::UnknownStatus;
use serde::{Deserialize, Serialize};

crate::status::status_type!(
    /// What a channel may do (D18).
    ChannelMode, "off, shadow, live", {
        /// Not tracked at all.
        Off = "off",
        /// Processed and recorded; nothing leaves.
        Shadow = "shadow",
        Live = "live",
    }
);

crate::status::status_type!(
    /// How much of a channel a prompt holds.
    ChannelLayer, "foreground, background, archived", {
        Foreground = "foreground",
        Background = "background",
        Archived = "archived",
    }
);
