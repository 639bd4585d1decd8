//! The TAO part of the conformance kit.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by a panic")]

mod kit;

use std::fs;

use taofold::events::{Event, decode};
use taofold::tao;

#[test]
fn reading_a_document_gives_the_expected_events() {
    let documents = kit::files("tao", ".yaml");
    assert!(documents.len() >= 2);
    for path in documents {
        let records = tao::import(&fs::read_to_string(&path).unwrap(), "imported", 0).unwrap();
        let events: Vec<Event> = records.into_iter().map(|record| record.event).collect();
        // Parsed by the format's rules, in which a field with its default may be omitted.
        let expected: Vec<Event> = kit::read(&path.with_extension("events.json"))
            .as_array()
            .unwrap()
            .iter()
            .map(|event| decode(&event.to_string()).unwrap().0)
            .collect();
        assert_eq!(events, expected, "{}", path.display());
    }
}
