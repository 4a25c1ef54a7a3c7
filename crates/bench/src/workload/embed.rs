//! Embedding: how many sentences a second one core makes vectors of, by the table in the binary.

use crate::BenchError;
use crate::corpus::sentence;
use crate::report::{Findings, Goal, Measured, Round, SideFigure, Unit};
use crate::run::Run;
use cortex_models::embed_built_in;
use std::hint::black_box;
use std::time::{Duration, Instant};

const SENTENCES: u64 = 2_000;

pub(crate) fn embed(run: &Run<'_>) -> Result<Findings, BenchError> {
    let sentences: Vec<String> = (0..SENTENCES).map(sentence).collect();
    let words: usize = sentences.iter().map(|text| text.split_whitespace().count()).sum();
    run.begins(run.rounds());
    embedded(&sentences, run.time() / 10);
    let mut rounds = Vec::new();
    for _ in 0..run.rounds() {
        let rate = embedded(&sentences, run.time());
        rounds.push(Round { a: rate, b: None, ratio: rate });
        run.stepped();
    }
    let what = "sentences embedded a second, one core".to_owned();
    let headline = Measured { what, goal: Goal::at_least(20_000.0), unit: Unit::PerSecond, of: "/s", rounds };
    let facts = vec![SideFigure::new("words of a sentence", words as f64 / SENTENCES as f64, "")];
    Ok(Findings { facts, ..Findings::of(headline) })
}

fn embedded(sentences: &[String], time: Duration) -> f64 {
    let (start, mut made) = (Instant::now(), 0_u64);
    for text in sentences.iter().cycle() {
        black_box(embed_built_in(text));
        made += 1;
        if made.is_multiple_of(64) && start.elapsed() >= time {
            break;
        }
    }
    made as f64 / start.elapsed().as_secs_f64()
}
