//! `cortex eval`: what `cargo xtask eval` runs.

use crate::context::Context;
use crate::exit::{Exit, Failure};
use cortex_bench::RetrievalScore;
use std::path::PathBuf;

/// Measure how good recall is on a data set
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    data_set: DataSet,
}

#[derive(Debug, clap::Subcommand)]
enum DataSet {
    /// Conversations of the LoCoMo format: which of the turns with the answer come back
    Locomo {
        /// A folder with a JSON file for each conversation
        #[arg(long, value_name = "FOLDER")]
        data: PathBuf,
    },
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, Failure> {
    let DataSet::Locomo { data } = &args.data_set;
    let failed =
        |error: cortex_bench::BenchError| Failure::Coded { code: "eval_failed", message: error.to_string() };
    let scores = cortex_bench::eval_locomo(data, &std::env::temp_dir()).map_err(failed)?;
    if context.terminal.json {
        context.terminal.print_json(&scores)?;
    } else {
        let rows: Vec<Vec<String>> = scores.iter().map(row).collect();
        context.terminal.print_table(&["ranked by", "questions", "recall@5", "@10", "@20", "MRR"], &rows)?;
    }
    Ok(Exit::Ok)
}

fn row(score: &RetrievalScore) -> Vec<String> {
    let shares =
        score.recall_at.iter().chain([&score.mean_reciprocal_rank]).map(|share| format!("{share:.3}"));
    [score.ranked_by.to_owned(), score.questions.to_string()].into_iter().chain(shares).collect()
}
