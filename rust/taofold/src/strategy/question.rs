//! One typed question to a model: ask, parse and correct until the reply is usable or attempts run
//! out.

use crate::content::{Conversation, Message, Role};
use crate::effects::{Answer, Ask, Halt, Scope};
use crate::json::{Object, Value, json};
use crate::parsing::{Repair, Unparsed};
use crate::strategy::conversation::{broken, corrections, is_refused, withheld};
use crate::tools::quoted;
use crate::values::{Reply, StepRole};

/// The maximum number of characters of an unreadable reply in an error.
const RAW: usize = 500;
const THOUGHTLESS: &str = "The thinking is missing: say how you get to the answer.";

/// A parsed value with its repairs.
pub(super) struct Parsed<T> {
    pub(super) value: T,
    pub(super) repairs: Vec<Repair>,
}

/// The error if no attempt gave a usable reply.
pub(super) struct Unread {
    pub(super) error: String,
}

impl From<Unread> for Answer {
    fn from(unread: Unread) -> Self {
        Self::error(unread.error)
    }
}

/// The options of a question.
pub(super) struct Question {
    pub(super) conversation: Conversation,
    pub(super) attempts: usize,
    pub(super) role: StepRole,
    pub(super) schema: Option<Value>,
    /// True if a reply without a thought is requested again, once.
    pub(super) strict: bool,
}

/// Asks until `read` accepts the reply. The caller has opened the turn.
///
/// `thought` returns the thought of a value, or `None` if the question requires none. An empty
/// thought is recorded as a violation of R1, and a strict question is asked once more.
pub(super) async fn ask_for<T>(
    scope: &Scope,
    question: Question,
    thought: impl Fn(&T) -> Option<&str>,
    read: impl Fn(&Reply) -> Result<Parsed<T>, Unparsed>,
) -> Result<Result<(T, Reply), Unread>, Halt> {
    let Question {
        mut conversation,
        attempts,
        role,
        schema,
        mut strict,
    } = question;
    let (mut kind, mut feedback) = ("no_attempt".to_owned(), "no attempt was allowed".to_owned());
    let mut raw = String::new();
    let mut left = attempts;
    while left > 0 {
        left -= 1;
        let ask = Ask {
            role,
            schema: schema.clone(),
            ..Ask::default()
        };
        let reply = scope.ask(&mut conversation, ask).await?;
        if reply.finish == "overflow" {
            let error = "the prompt does not fit the model's context window".to_owned();
            return Ok(Err(Unread { error }));
        }
        if is_refused(&reply) {
            let error = withheld(&reply);
            return Ok(Err(Unread { error }));
        }
        // The provider paused its reply: the partial reply is sent back, and it continues.
        if reply.finish == "pause" {
            conversation.append(Message {
                role: Role::Assistant,
                content: reply.content,
                issuer: reply.issuer,
            });
            continue;
        }
        let refused = match broken(&reply) {
            Some(feedback) => (reply.finish.clone(), feedback.to_owned()),
            None => match read(&reply) {
                Ok(parsed) => {
                    if thought(&parsed.value).is_some_and(|it| it.trim().is_empty()) {
                        scope
                            .note("violation", violation("R1", THOUGHTLESS, strict))
                            .await?;
                        if strict {
                            // Requested only once, so this reply needs no count of its own.
                            strict = false;
                            left += 1;
                            for message in corrections(&reply, THOUGHTLESS) {
                                conversation.append(message);
                            }
                            continue;
                        }
                    }
                    note_repairs(scope, &parsed.repairs).await?;
                    return Ok(Ok((parsed.value, reply)));
                }
                Err(refused) => (refused.reason.to_owned(), refused.feedback),
            },
        };
        (kind, feedback) = refused;
        raw = reply.text().chars().take(RAW).collect();
        let detail: String = format!("{kind}: {feedback}").chars().take(RAW).collect();
        scope
            .note("violation", violation("unreadable", &detail, true))
            .await?;
        for message in corrections(&reply, &feedback) {
            conversation.append(message);
        }
    }
    let data = json!({"reason": &kind, "raw": &raw});
    scope.note("unread", object(data)).await?;
    let mut error = format!(
        "{kind}: no usable reply in {}: {feedback}",
        crate::values::times(attempts as u64, "attempt")
    );
    if !raw.is_empty() {
        let start: String = raw.chars().take(200).collect();
        error += &format!("; the last one began {}", quoted(&start));
    }
    Ok(Err(Unread { error }))
}

async fn note_repairs(scope: &Scope, repairs: &[Repair]) -> Result<(), Halt> {
    if repairs.is_empty() {
        return Ok(());
    }
    let mut kinds: Vec<&str> = Vec::new();
    for repair in repairs {
        if !kinds.contains(&repair.kind) {
            kinds.push(repair.kind);
        }
    }
    scope.note("read", object(json!({"how": kinds}))).await
}

/// Returns the data of a note about a violated rule. `refused` is true if the reply is discarded.
pub(super) fn violation(rule: &str, detail: &str, refused: bool) -> Object {
    object(json!({"rule": rule, "detail": detail, "refused": refused}))
}

/// Returns the members of a JSON object.
pub(crate) fn object(value: Value) -> Object {
    match value {
        Value::Object(members) => members,
        _ => Object::new(),
    }
}
