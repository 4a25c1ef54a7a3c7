//! `cortex bench` where the program itself has to play a part: it is the host of a skill's process.

use crate::cortex::Cortex;

#[test]
fn a_skill_is_measured_in_a_process_of_its_own_beside_a_thread() {
    let cortex = Cortex::new();
    let folder = cortex.beside("disk");
    std::fs::create_dir(&folder).unwrap();
    let report = cortex.json(&["bench", "tool-call", "--smoke", "--json", "--dir", folder.to_str().unwrap()]);
    let figures = report["figures"].as_array().unwrap();
    let measured: Vec<(&str, bool)> = figures
        .iter()
        .map(|figure| (figure["what"].as_str().unwrap(), figure["a"].as_f64().unwrap() > 0.0))
        .collect();
    let expected = [
        "skill call in a process, p50",
        "skill call on a thread, p50",
        "cold load of a skill in a process",
        "cold load of a skill on a thread",
    ];
    assert_eq!(measured, expected.map(|what| (what, true)));
    let facts = report["facts"].as_array().unwrap();
    let has =
        |what: &str| facts.iter().any(|fact| fact["what"] == what && fact["value"].as_f64() > Some(0.0));
    assert!(has("skill call in a process / on a thread"), "{facts:?}");
    assert!(has("skill call on a thread / built-in that does nothing"), "{facts:?}");
    // A thread has no memory of its own that the system could tell.
    let told = has("memory of a skill's process, without pages of files");
    assert_eq!(told, cfg!(target_os = "linux"), "{facts:?}");
    assert_eq!(folder.read_dir().unwrap().count(), 0, "nothing stays behind");
}
