//! The evictor: facts that nobody asks for go cold, and history that is too old and was extracted, if memory is on, goes away.

use super::{Garden, GardenerError, long_before};
use cortex_store::EvictTurns;

/// Lines that one transaction drops.
const TURNS_AT_ONCE: u32 = 500;

impl Garden {
    pub(super) async fn evict(&self) -> Result<String, GardenerError> {
        let now = self.parts.clock.now();
        let cold = self.parts.memory.evict(now).await?;
        let mut dropped = 0;
        if let Some(age) = self.parts.config.turn_ttl {
            let before = long_before(now, age);
            let which = match self.parts.config.memory_enabled {
                true => EvictTurns::Extracted,
                false => EvictTurns::All,
            };
            loop {
                let ids = self.parts.store.gardener().evict_turns(which, before, TURNS_AT_ONCE).await?;
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
