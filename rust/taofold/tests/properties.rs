//! Properties of the parsers of foreign text: replies of models and logs.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by a panic")]

use proptest::prelude::*;
use serde_json::{Value, json};
use taofold::events::{Record, RunStarted};
use taofold::log::ndjson;
use taofold::parsing::{Call, Read, read_call, read_reply};

/// Generates JSON of bounded depth, with texts of any characters.
fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-z]{1,6}", inner, 0..4)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

fn parameters() -> impl Strategy<Value = Value> {
    prop::collection::btree_map("p_[a-z]{1,6}", value(), 0..4)
        .prop_map(|members| Value::Object(members.into_iter().collect()))
}

/// Returns true if parsing may have changed the model's text, so that the call needs an approval.
fn guessed(call: &Call) -> bool {
    call.repairs.iter().any(|repair| repair.content)
}

fn reply(thought: &str, parameters: &Value) -> String {
    let action = json!({"tool": "work", "parameters": parameters, "rationale": "it is needed"});
    json!({"thought": thought, "thought_type": "goal", "action": action}).to_string()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_text_is_read_or_refused(text in "\\PC{0,80}|[{}\\[\\]\"',:\\\\ \na-z0-9]{0,80}", finish in "stop|length") {
        let _ = read_reply(&text, &finish);
        let _ = ndjson::import(&text);
    }

    #[test]
    fn a_reply_in_the_protocol_is_read_as_it_is(thought in "[a-zA-Z ]{1,40}", parameters in parameters()) {
        prop_assume!(!thought.trim().is_empty());
        let Read::Turn(turn) = read_reply(&reply(&thought, &parameters), "stop") else {
            panic!("no turn");
        };
        prop_assert_eq!(turn.calls.len(), 1);
        let call = &turn.calls[0];
        prop_assert_eq!(&call.error, "");
        prop_assert!(!guessed(call));
        prop_assert_eq!(Value::Object(call.parameters.clone()), parameters);
    }

    #[test]
    fn a_call_of_a_reply_that_was_cut_is_whole_or_marked(parameters in parameters(), at in 0.0..1.0f64) {
        let whole = reply("I work.", &parameters);
        #[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a place in a short text")]
        let end = (whole.len() as f64 * at) as usize;
        let cut: String = whole.chars().take(end).collect();
        if let Read::Turn(turn) = read_reply(&cut, "length") {
            for call in &turn.calls {
                let same = Value::Object(call.parameters.clone()) == parameters;
                prop_assert!(same || guessed(call) || !call.error.is_empty(), "{} -> {:?}", cut, call);
            }
        }
    }

    #[test]
    fn an_export_is_read_as_it_was_written(goal in "\\PC{0,40}|[\n\r\t\u{2028}]{1,4}", at in any::<i32>()) {
        let record = Record {
            run: "r".to_owned(),
            seq: 0,
            at: i64::from(at),
            event: RunStarted::new(goal).into(),
            elapsed: None,
        };
        let text = ndjson::export(std::slice::from_ref(&record)).unwrap();
        prop_assert_eq!(ndjson::import(&text).unwrap(), vec![record]);
        // A torn line is not a record.
        let torn = &text[..text.trim_end().len() - 1];
        prop_assert!(ndjson::import(torn).is_err());
    }
}

#[test]
fn arguments_of_a_native_call_are_read_or_refused() {
    let call = |arguments: &str| {
        let call = taofold::content::ToolCall {
            id: String::new(),
            name: "work".to_owned(),
            arguments: arguments.to_owned(),
            opaque: String::new(),
        };
        read_call(&call, "stop")
    };
    proptest!(|(parameters in parameters())| {
        let read = call(&parameters.to_string());
        prop_assert!(read.error.is_empty() && !guessed(&read));
        prop_assert_eq!(Value::Object(read.parameters), parameters);
    });
    proptest!(|(text in "\\PC{0,60}")| {
        let _ = call(&text);
    });
}
