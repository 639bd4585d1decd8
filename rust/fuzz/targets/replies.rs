//! Fuzzes replies of models: JSON and ReAct text protocols, typed answers, arguments of native
//! calls.
#![no_main]

use libfuzzer_sys::fuzz_target;
use taofold::content::ToolCall;
use taofold::parsing::{Read, read_call, read_object, read_reply};

fuzz_target!(|text: &str| {
    for finish in ["stop", "length"] {
        if let Read::Turn(turn) = read_reply(text, finish) {
            for call in &turn.calls {
                // A call that may run has the name of a tool.
                assert!(!call.error.is_empty() || !call.tool.is_empty());
            }
        }
        let _ = read_object(text, finish);
        let call = ToolCall {
            id: String::new(),
            name: "work".to_owned(),
            arguments: text.to_owned(),
            opaque: String::new(),
        };
        let _ = read_call(&call, finish);
    }
});
