//! Fuzzes logs: one event per line, and exports. Parsed records must fold, list their questions and
//! serialize to the same text.
#![no_main]

use libfuzzer_sys::fuzz_target;
use taofold::events::{Record, decode};
use taofold::log::ndjson;
use taofold::runtime::control::pending;
use taofold::state::fold;
use taofold::tao;

fuzz_target!(|text: &str| {
    let _ = ndjson::import(text);
    let events = text.lines().filter_map(|line| decode(line).ok());
    let records: Vec<Record> = (0..)
        .zip(events)
        .map(|(seq, (event, elapsed))| Record {
            run: "run".to_owned(),
            seq,
            at: i64::try_from(seq).unwrap_or_default() * 1000,
            elapsed,
            event,
        })
        .collect();
    if fold(&records).is_err() {
        return;
    }
    let _ = pending(&records);
    let _ = tao::document(&records);
    if let Ok(written) = ndjson::export(&records) {
        match ndjson::import(&written) {
            Ok(again) => assert_eq!(again, records),
            Err(error) => assert!(records.is_empty(), "{error}"),
        }
    }
});
