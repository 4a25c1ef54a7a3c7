//! Every benchmark that needs no process of its own, in its shortest form.

use cortex_bench::{BenchName, BenchOptions, Progress, Report, Scale, Verdict, plot, run};
use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::time::Duration;

fn options(folder: &Path) -> BenchOptions {
    // A provider may have been installed by an earlier test of this process.
    rustls::crypto::ring::default_provider().install_default().unwrap_or_default();
    BenchOptions {
        rounds: 1,
        time: Duration::from_millis(100),
        scale: Scale::Smoke,
        folder: folder.to_owned(),
        program: PathBuf::from("no-such-program"),
        skill_host: "no-such-command",
        node_modules: None,
    }
}

fn smoke(name: BenchName) -> Report {
    let folder = tempfile::tempdir().unwrap();
    let steps = RefCell::new(Vec::new());
    let report = run(name, &options(folder.path()), &|progress| steps.borrow_mut().push(progress)).unwrap();
    assert_eq!(folder.path().read_dir().unwrap().count(), 0, "{name:?} leaves files behind");
    let steps = steps.into_inner();
    assert_eq!(steps[0], Progress::Began { name, steps: steps.len() - 1 });
    assert!(report.figures.iter().all(|figure| figure.a > 0.0 && figure.ratio > 0.0), "{report:?}");
    assert!(report.checks.iter().all(|check| check.of > 0), "{:?}", report.checks);
    assert_eq!(report.verdict, Verdict::NotJudged);
    report
}

#[test]
fn ingest_is_measured_against_an_echo() {
    let report = smoke(BenchName::IngestThroughput);
    assert_eq!(report.figures.len(), 2);
    assert!(plot(&[report]).contains("ingest / echo, c = 64"));
}

#[test]
fn ingest_is_measured_against_a_transaction_a_request() {
    assert_eq!(smoke(BenchName::IngestVsNaive).figures.len(), 4);
    assert_eq!(smoke(BenchName::IngestIdleLatency).figures.len(), 1);
}

#[test]
fn draining_the_outbox_leases_nothing_twice() {
    let report = smoke(BenchName::OutboxDrain);
    assert_eq!(report.checks[0].violations, 0);
}

#[test]
fn turns_answer_each_topic_in_order() {
    let report = smoke(BenchName::TurnThroughput);
    assert_eq!(report.checks[0].violations, 0);
}

#[test]
fn a_re_sent_event_gets_the_recorded_answer_at_the_speed_of_the_door() {
    let report = smoke(BenchName::WsDispatch);
    assert_eq!(report.checks[0].violations, 0);
    assert!(report.facts[0].value > 0.0, "{:?}", report.facts);
}

#[test]
fn a_prompt_is_put_together_over_a_long_and_a_short_history() {
    assert_eq!(smoke(BenchName::Context).figures.len(), 2);
}

#[test]
fn vectors_are_made_searched_and_recalled() {
    assert_eq!(smoke(BenchName::Embed).figures.len(), 1);
    let search = smoke(BenchName::SearchVector);
    assert!(search.facts[0].value > 0.9, "{:?}", search.facts);
    assert_eq!(smoke(BenchName::Recall).facts.len(), 2);
}

#[test]
fn growth_is_measured_for_each_operation() {
    let report = smoke(BenchName::Growth);
    assert_eq!((report.figures.len(), report.facts.len()), (4, 4));
}

#[test]
fn a_program_that_does_not_start_is_an_error_and_not_a_figure() {
    for name in [BenchName::Footprint, BenchName::ToolCall] {
        let folder = tempfile::tempdir().unwrap();
        assert!(run(name, &options(folder.path()), &|_| {}).is_err(), "{name:?}");
        assert_eq!(folder.path().read_dir().unwrap().count(), 0, "{name:?}");
    }
}
