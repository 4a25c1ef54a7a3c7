//! The evictor: facts that nobody asks for go cold, and history that is too old and was extracted goes away.

use super::{Garden, GardenerError};
use cortex_types::Millis;

/// Lines that one transaction drops.
const TURNS_AT_ONCE: u32 = 500;

impl Garden {
    pub(super) async fn evict(&self) -> Result<String, GardenerError> {
        let now = self.parts.clock.now();
        let cold = self.parts.memory.evict(now).await?;
        let mut dropped = 0;
        if let Some(age) = self.parts.config.turn_ttl {
            let age = i64::try_from(age.as_millis()).unwrap_or(i64::MAX);
            let before = Millis(now.0.saturating_sub(age));
            loop {
                let ids = self.parts.store.gardener().evict_turns(before, TURNS_AT_ONCE).await?;
                fail::fail_point!("gardener.after_eviction");
                if ids.is_empty() {
                    break;
                }
                dropped += ids.len();
                self.parts.memory.turns_dropped(&ids).await;
            }
        }
        Ok(format!("{cold} facts went cold, {dropped} lines of history dropped"))
    }
}
