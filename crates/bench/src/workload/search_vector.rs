//! Vector search: the scan in memory beside sqlite-vec over the same vectors in a database in memory, and beside the bare
//! products of the same rows.

use crate::BenchError;
use crate::baseline::{BareScan, SqliteVec};
use crate::corpus::{question, sentence};
use crate::options::Scale;
use crate::report::{Findings, Goal, Measured, SideFigure};
use crate::run::Run;
use crate::sample::median;
use cortex_brain::{Int8Vector, VectorIndex};
use cortex_models::{BUILT_IN_DIMS, embed_built_in};
use std::collections::BTreeSet;
use std::hint::black_box;
use std::time::{Duration, Instant};

const NEAREST: usize = 10;
const QUESTIONS: u64 = 50;

pub(crate) fn search_vector(run: &Run<'_>) -> Result<Findings, BenchError> {
    let sizes: &[u64] = match run.options.scale {
        Scale::Full => &[100_000, 10_000],
        Scale::Smoke => &[500],
    };
    let questions: Vec<Vec<f32>> =
        (0..QUESTIONS).map(|number| embed_built_in(&question(number * 7))).collect();
    run.begins(run.rounds() * 4 * sizes.len());
    let (mut figures, mut facts) = (Vec::new(), Vec::new());
    for rows in sizes {
        let Rows { index, rival, bare } = filled(*rows)?;
        let pairs = run.side_by_side(
            |time| each_question(&questions, time, |query| Ok(scan(&index, query))),
            |time| each_question(&questions, time, |query| rival.nearest(query, NEAREST)),
        )?;
        // How many times faster: the time of B over that of A.
        let pairs = pairs.into_iter().map(|(ours, theirs)| (theirs, ours));
        let what = format!("sqlite-vec / scan, {rows} × {BUILT_IN_DIMS}, nearest {NEAREST}");
        figures.push(Measured::ratio(what, Goal::at_least(8.0), "ms", pairs));
        let pairs = run.side_by_side(
            |time| each_question(&questions, time, |query| Ok(scan(&index, query))),
            |time| {
                each_question(&questions, time, |query| {
                    Ok(vec![i64::try_from(bare.best(query)).unwrap_or(i64::MAX)])
                })
            },
        )?;
        let what = format!("scan / bare products, {rows} × {BUILT_IN_DIMS}");
        figures.push(Measured::ratio(what, Goal::at_most(1.3), "ms", pairs));
        let kept = median(
            questions.iter().map(|query| overlap(&index, &rival, query)).collect::<Result<Vec<_>, _>>()?,
        );
        facts.push(SideFigure::new(
            format!("share of the exact nearest {NEAREST} kept, {rows} rows"),
            kept,
            "",
        ));
    }
    let headline = figures.remove(0);
    Ok(Findings { more: figures, facts, ..Findings::of(headline) })
}

/// The same vectors three times.
struct Rows {
    index: VectorIndex,
    rival: SqliteVec,
    bare: BareScan,
}

fn filled(rows: u64) -> Result<Rows, BenchError> {
    let (mut index, mut bare) = (VectorIndex::default(), BareScan::new(BUILT_IN_DIMS));
    let rival = SqliteVec::create(BUILT_IN_DIMS)?;
    let vectors = (0..rows).map(|row| embed_built_in(&sentence(row)));
    rival.fill(vectors.enumerate().map(|(row, vector)| {
        let row = i64::try_from(row).unwrap_or(i64::MAX);
        index.put(row, 0, &Int8Vector::of(&vector));
        bare.put(&vector);
        (row, vector)
    }))?;
    Ok(Rows { index, rival, bare })
}

fn scan(index: &VectorIndex, query: &[f32]) -> Vec<i64> {
    let found = index.nearest(&Int8Vector::of(query), NEAREST, |_| true);
    found.into_iter().map(|(row, _)| row).collect()
}

/// Milliseconds of a search, the median over as many as fit into the time.
fn each_question(
    questions: &[Vec<f32>],
    time: Duration,
    mut search: impl FnMut(&[f32]) -> Result<Vec<i64>, BenchError>,
) -> Result<f64, BenchError> {
    let start = Instant::now();
    let mut times = Vec::new();
    for query in questions.iter().cycle() {
        let began = Instant::now();
        black_box(search(query)?);
        times.push(began.elapsed().as_secs_f64() * 1_000.0);
        if start.elapsed() >= time {
            break;
        }
    }
    Ok(median(times))
}

fn overlap(index: &VectorIndex, rival: &SqliteVec, query: &[f32]) -> Result<f64, BenchError> {
    let exact: BTreeSet<i64> = rival.nearest(query, NEAREST)?.into_iter().collect();
    let found = scan(index, query).into_iter().filter(|row| exact.contains(row)).count();
    Ok(found as f64 / exact.len().max(1) as f64)
}
