//! The ends of turns that go wrong: whatever it is, the event ends and its topic goes on (F-E1).

use super::inbox_model::{ModelEnd, restart_notice};
use super::inbox_steps::turn_end;
use super::operation::{Answer, EndFault};
use super::world::{Checked, World, same, told};
use cortex_store::{FinishedTurn, StoreError, Stranded, TurnEnd};
use cortex_testkit::new_reply;
use cortex_types::{CallOutcome, Event, InboxStatus, ModelCall, TokenUsage};

const ATTEMPTS_MAX: u32 = 3;

impl World {
    pub(super) async fn broken_end(&mut self, index: usize, fault: EndFault) -> Checked {
        let row = self.row_of(index)?;
        match fault {
            EndFault::Count => self.absurdly_counted(index, &row).await,
            EndFault::Refused => self.refused_end(index, &row).await,
            EndFault::Lost => self.lost(index, &row).await,
        }
    }

    /// A number from outside is clamped, and the answer stands.
    async fn absurdly_counted(&mut self, index: usize, row: &Event) -> Checked {
        self.promises.answered(&row.id)?;
        let end = self.answer_of(index, &Answer { event: 0, replies: 1, elsewhere: false });
        let absurd = u64::MAX;
        let call = ModelCall {
            profile: "p".to_owned(),
            provider: "openai".to_owned(),
            model: "m".to_owned(),
            started_at: self.now,
            latency_ms: absurd,
            usage: TokenUsage { input: absurd, output: absurd, cached: absurd },
            cost_micros: absurd,
            outcome: CallOutcome::Answered,
        };
        let finished = self.store.turns().finish_turn(row, turn_end(&end), vec![call], self.now).await;
        finished.map_err(|error| format!("I5: {} is over and stays in flight: {error}", row.id))?;
        self.models.inbox.finish(index, end, &mut self.models.outbox, self.now);
        Ok(())
    }

    /// What the store refuses is given up, with a notice.
    async fn refused_end(&mut self, index: usize, row: &Event) -> Checked {
        let twice = new_reply(&row.topic, "twice");
        let replies = vec![twice.clone(), twice];
        let end = TurnEnd::Answered(Box::new(FinishedTurn { replies, ..FinishedTurn::default() }));
        match self.store.turns().finish_turn(row, end, Vec::new(), self.now).await {
            Err(StoreError::Fault(_)) => {}
            other => return Err(format!("two messages with one id: {other:?}")),
        }
        let notice = new_reply(&row.topic, "sorry");
        let reason = "its end could not be written".to_owned();
        let given_up = self.store.watchdog().give_up(row, reason.clone(), notice.clone(), self.now).await;
        given_up.map_err(told)?;
        let end = ModelEnd::Failed { reason, replies: vec![notice] };
        self.models.inbox.finish(index, end, &mut self.models.outbox, self.now);
        Ok(())
    }

    /// The watchdog finds what no task works on, and nothing else.
    async fn lost(&mut self, index: usize, row: &Event) -> Checked {
        let others = self.seen.iter().filter(|other| other.status == InboxStatus::Processing);
        let others = others.map(|other| other.seq).filter(|seq| *seq != row.seq).collect();
        let stranded = self.store.watchdog().look(others).await.map_err(told)?;
        same("the watchdog", &stranded, &Stranded { events: vec![row.seq], ..Stranded::default() })?;
        let notice = |event: &Event| restart_notice(&event.topic, &event.id);
        let rescued = self.store.watchdog().rescue(stranded, ATTEMPTS_MAX, self.now, notice).await;
        let expected = self.models.inbox.rescue(index, ATTEMPTS_MAX, &mut self.models.outbox, self.now);
        same("a rescue", &rescued.map_err(told)?, &expected)
    }
}
