//! Fuzzes YAML files: flows and TAO documents.
#![no_main]

use libfuzzer_sys::fuzz_target;
use taofold::flow::Flow;
use taofold::tao;

fuzz_target!(|text: &str| {
    let _ = Flow::read(text);
    if let Ok(records) = tao::import(text, "run", 0) {
        let _ = tao::document(&records);
    }
});
