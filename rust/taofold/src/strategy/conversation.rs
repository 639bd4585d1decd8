//! The conversation with the model: the goal, the steps so far, and feedback on its last reply.
//!
//! Older observations are reduced to their key line near the end of the window. This module makes
//! no decisions: compaction happens when the strategy requests it.

use crate::content::{Content, Conversation, Message, Part, Role, TextPart};
use crate::effects::Outlook;
use crate::json::{Value, render};
use crate::strategy::Task;
use crate::values::{Action, FINISH, Observation, Reply};

/// The number of steps that a compaction leaves unchanged.
const KEEP: usize = 3;
/// The maximum number of characters of an unreadable reply in the feedback.
const ECHO: usize = 2000;

/// One step in the conversation: its messages, and the line that can replace them.
#[derive(Debug)]
struct Told {
    number: u64,
    messages: Vec<Message>,
    line: String,
}

/// The conversation of one task.
#[derive(Debug)]
pub struct Talk {
    goal: String,
    wrap_up: String,
    offers_tools: bool,
    native: bool,
    plain: bool,
    text_output: bool,
    offer: Vec<String>,
    budget: usize,
    schemas: [Value; 2],
    answer_schema: Option<Value>,
    opening: Vec<Message>,
    told: Vec<Told>,
    folded: usize,
    /// The messages as they are sent.
    pub conversation: Conversation,
}

impl Talk {
    /// Returns the conversation that opens a task.
    pub fn new(task: &Task) -> Self {
        let system = task.system_prompt();
        let system = (!system.is_empty()).then(|| Message::new(Role::System, system));
        let opening: Vec<Message> = system
            .into_iter()
            .chain(task.history.iter().cloned())
            .collect();
        let goal = Message::new(Role::User, task.goal.as_str());
        let conversation = Conversation::new(opening.iter().cloned().chain([goal]));
        // A text answer needs no `finish`: the reply without a call is the answer.
        let offered = |name: &String| name != FINISH || !task.output.is_text();
        Self {
            goal: task.goal.clone(),
            wrap_up: task.wrap_up(),
            offers_tools: !task.offers.is_empty(),
            native: task.native,
            plain: task.is_plain(),
            text_output: task.output.is_text(),
            offer: task.names().into_iter().filter(offered).collect(),
            budget: task.budget(),
            schemas: [task.reply_schema(false), task.reply_schema(true)],
            answer_schema: task.output.schema().cloned(),
            opening,
            told: Vec::new(),
            folded: 0,
            conversation,
        }
    }

    /// Adds the messages at the start of a turn: from users, from the guard, and the last-turn
    /// notice.
    pub fn open(&mut self, outlook: &Outlook) {
        let number = self.told.last().map_or(0, |step| step.number);
        for message in &outlook.heard {
            self.conversation.append(message.clone());
            // Users' messages are separate steps, so that compaction keeps their position.
            self.told.push(Told {
                number,
                line: message.content.text(),
                messages: vec![message.clone()],
            });
        }
        let notice = if !outlook.wrap_up.is_empty() && self.offers_tools {
            self.wrap_up.clone()
        } else if outlook.toolless {
            format!("{}\n{}", outlook.hint, self.wrap_up)
                .trim()
                .to_owned()
        } else {
            outlook.hint.clone()
        };
        if !notice.is_empty() {
            self.conversation.append(Message::new(Role::User, notice));
        }
    }

    /// Returns true if the text of a reply is the answer, also if it has the form of a call.
    pub fn is_plain(&self) -> bool {
        self.plain && self.told.last().is_none_or(|step| step.number == 0)
    }

    /// Returns the schema of a reply, for models with constrained decoding.
    ///
    /// A model that calls tools natively has one only if it has nothing to call.
    pub fn form(&self, toolless: bool) -> Option<Value> {
        if self.plain {
            return self.answer_schema.clone();
        }
        (!self.native).then(|| self.schemas[usize::from(toolless)].clone())
    }

    /// Returns the names of the natively offered tools.
    pub fn offered(&self) -> Vec<String> {
        if self.native && !self.plain {
            self.offer.clone()
        } else {
            Vec::new()
        }
    }

    /// Returns the subset of tools that may be called now.
    ///
    /// The offer stays the same for the whole run, because a provider's cache is bound to it.
    pub fn allowed(&self, toolless: bool) -> Option<Vec<String>> {
        if !toolless || !self.native || self.plain {
            return None;
        }
        Some(if self.text_output {
            Vec::new()
        } else {
            vec![FINISH.to_owned()]
        })
    }

    /// Adds the unusable reply with feedback for the model.
    pub fn correct(&mut self, reply: &Reply, feedback: &str) {
        for message in corrections(reply, feedback) {
            self.conversation.append(message);
        }
    }

    /// Adds a finished step: the `kept` part of the reply and the observations.
    pub fn tell(
        &mut self,
        number: u64,
        reply: &Reply,
        kept: &str,
        actions: &[Action],
        observations: &[Observation],
    ) {
        let mut messages = vec![Message {
            role: Role::Assistant,
            content: reply.content.with_text(kept),
            issuer: reply.issuer.clone(),
        }];
        let pairs = || actions.iter().zip(observations);
        // Each native call gets a result with its id, because providers refuse a history with gaps.
        if reply.calls().is_empty() {
            let shown: Vec<Content> = pairs().map(|(a, o)| show(number, a, o)).collect();
            messages.push(Message::new(Role::User, joined(shown)));
        } else {
            messages.extend(pairs().map(|(action, observation)| {
                let shown = show(number, action, observation);
                Message::result(&action.id, shown, observation.status.failed())
            }));
        }
        for message in &messages {
            self.conversation.append(message.clone());
        }
        let outcomes: Vec<String> = pairs()
            .map(|(action, observation)| {
                let line = if observation.extraction.is_empty() {
                    render(&observation.result)
                } else {
                    observation.extraction.clone()
                };
                format!("{} [{}] {line}", action.tool, observation.status.name())
            })
            .collect();
        let line = format!("Step {number}: {}", outcomes.join("; "));
        self.told.push(Told {
            number,
            messages,
            line: line.chars().take(400).collect(),
        });
    }

    /// Returns true if the conversation is near the end of the window.
    pub fn crowded(&self) -> bool {
        self.conversation.chars() > self.budget
    }

    /// Replaces the messages of older steps by one line each.
    ///
    /// Returns the number of the last folded step and the characters before and after, or `None` if
    /// nothing is left to fold.
    pub fn compact(&mut self) -> Option<(u64, usize, usize)> {
        let upto = self.told.len().checked_sub(KEEP)?;
        if upto <= self.folded {
            return None;
        }
        let before = self.conversation.chars();
        let (old, recent) = self.told.split_at(upto);
        let lines: Vec<&str> = old.iter().map(|step| step.line.as_str()).collect();
        // Into the first message and not after it, because providers require alternating roles.
        let goal = format!(
            "{}\n\n[earlier steps, shortened]\n{}",
            self.goal,
            lines.join("\n")
        );
        let rest = recent.iter().flat_map(|step| &step.messages).map(portable);
        let opening = self.opening.iter().cloned();
        let goal = Message::new(Role::User, goal);
        self.conversation = Conversation::new(opening.chain([goal]).chain(rest));
        self.folded = upto;
        let number = old.last().map_or(0, |step| step.number);
        Some((number, before, self.conversation.chars()))
    }
}

/// Returns a message without parts that only their issuer understands.
///
/// A changed beginning is another conversation, in which a provider's signatures are invalid.
fn portable(message: &Message) -> Message {
    let Content::Parts(parts) = &message.content else {
        return Message::new(message.role, message.content.clone());
    };
    let kept = parts.iter().filter_map(|part| match part {
        Part::Opaque(_) | Part::Thinking(_) => None,
        Part::Text(text) => Some(Part::Text(TextPart {
            opaque: String::new(),
            ..text.clone()
        })),
        Part::Call(call) => {
            let mut call = call.clone();
            call.opaque.clear();
            Some(Part::Call(call))
        }
        other => Some(other.clone()),
    });
    Message::new(message.role, Content::from_parts(kept.collect()))
}

/// Returns true if the provider withholds the reply, so that none of it counts.
pub(super) fn is_refused(reply: &Reply) -> bool {
    matches!(reply.finish.as_str(), "refusal" | "content_filter")
}

/// Returns the provider's reason for a missing reply, if it gives one.
pub(super) fn withheld(reply: &Reply) -> String {
    if reply.finish == "content_filter" {
        return "the reply was withheld by the provider's content filter".to_owned();
    }
    let text = reply.text();
    let notes = reply.notes.join("; ");
    let why = [text.trim(), &notes, "it does not say why"]
        .into_iter()
        .find(|why| !why.is_empty())
        .unwrap_or_default()
        .to_owned();
    format!("the model refuses to answer: {why}")
}

/// Returns the feedback on an incomplete reply, of which nothing counts.
pub(super) fn broken(reply: &Reply) -> Option<&'static str> {
    match reply.finish.as_str() {
        "malformed" => Some("Your tool call could not be read. Call the tool again."),
        "error" => {
            Some("Your reply was broken off by an error, and nothing of it was run. Send it again.")
        }
        _ => None,
    }
}

/// Returns the messages with an unusable `reply` and its feedback.
pub(super) fn corrections(reply: &Reply, feedback: &str) -> Vec<Message> {
    let calls = reply.calls();
    // A native call needs a result with its id, even if it could not be used.
    if reply.issuer.is_some() && !calls.is_empty() {
        let own = Message {
            role: Role::Assistant,
            content: reply.content.clone(),
            issuer: reply.issuer.clone(),
        };
        let answers = calls
            .iter()
            .map(|call| Message::result(&call.id, feedback, true));
        return std::iter::once(own).chain(answers).collect();
    }
    let text = reply.text();
    let mut echo: String = text.chars().take(ECHO).collect();
    if echo.len() < text.len() {
        echo.push_str(" […]");
    }
    if echo.is_empty() {
        let empty = if calls.is_empty() {
            "(empty reply)"
        } else {
            "(a tool call that could not be used)"
        };
        empty.clone_into(&mut echo);
    }
    let own = Message {
        role: Role::Assistant,
        content: Content::Text(echo),
        issuer: reply.issuer.clone(),
    };
    vec![own, Message::new(Role::User, feedback)]
}

/// Returns one observation in the form that the model reads.
///
/// The frame comes first, so that content cannot imitate the head of another observation.
fn show(number: u64, action: &Action, observation: &Observation) -> Content {
    let status = observation.status.name();
    let head = format!("Observation: {number} [{status}] {}: ", action.tool);
    if observation.parts.is_empty() {
        return Content::Text(head + &render(&observation.result));
    }
    let head = Part::Text(TextPart {
        text: head,
        ..TextPart::default()
    });
    let parts = std::iter::once(head).chain(observation.parts.iter().cloned());
    Content::Parts(parts.collect())
}

fn joined(shown: Vec<Content>) -> Content {
    let mut parts: Vec<Part> = Vec::new();
    let mut text = String::new();
    let all_text = shown
        .iter()
        .all(|content| matches!(content, Content::Text(_)));
    for content in shown {
        match content {
            Content::Text(more) if all_text => {
                if !text.is_empty() {
                    text.push_str("\n\n");
                }
                text.push_str(&more);
            }
            other => parts.extend(other.to_parts()),
        }
    }
    if all_text {
        Content::Text(text)
    } else {
        Content::Parts(parts)
    }
}
