//! What the model is told: the goal, the steps so far, and what was wrong with its last reply.
//!
//! Older observations fold to their key line near the end of the window. It decides nothing:
//! compaction happens when the strategy asks for it.

use crate::content::{Content, Conversation, Message, Part, Role, TextPart};
use crate::effects::Outlook;
use crate::json::{Value, render};
use crate::strategy::Task;
use crate::values::{Action, FINISH, Observation, Reply};

/// Steps that a compaction leaves as they are.
const KEEP: usize = 3;
/// Characters of an unreadable reply that are shown back to the model.
const ECHO: usize = 2000;

/// One step in the conversation: its messages, and the line that may stand for them.
#[derive(Debug)]
struct Told {
    number: u64,
    messages: Vec<Message>,
    line: String,
}

/// What has been said so far, for one task.
#[derive(Debug)]
pub struct Talk {
    goal: String,
    wrap_up: String,
    offers_tools: bool,
    native: bool,
    text_output: bool,
    offer: Vec<String>,
    budget: usize,
    schemas: [Value; 2],
    opening: Vec<Message>,
    told: Vec<Told>,
    folded: usize,
    /// The conversation as it is sent.
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
        // A text answer needs no `finish` offered: the reply without a call is the answer.
        let offered = |name: &String| name != FINISH || !task.output.is_text();
        Self {
            goal: task.goal.clone(),
            wrap_up: task.wrap_up(),
            offers_tools: !task.offers.is_empty(),
            native: task.native,
            text_output: task.output.is_text(),
            offer: task.names().into_iter().filter(offered).collect(),
            budget: task.budget(),
            schemas: [task.reply_schema(false), task.reply_schema(true)],
            opening,
            told: Vec::new(),
            folded: 0,
            conversation,
        }
    }

    /// Adds what a turn starts with: people's messages, the guard's hint, the last call.
    pub fn open(&mut self, outlook: &Outlook) {
        let number = self.told.last().map_or(0, |step| step.number);
        for message in &outlook.heard {
            self.conversation.append(message.clone());
            // People's words are steps of their own: folding keeps their place.
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

    /// Returns the schema of a reply, for models that decode under one.
    pub fn form(&self, toolless: bool) -> Option<Value> {
        (!self.native).then(|| self.schemas[usize::from(toolless)].clone())
    }

    /// Returns the names that are offered natively.
    pub fn offered(&self) -> Vec<String> {
        if self.native {
            self.offer.clone()
        } else {
            Vec::new()
        }
    }

    /// Returns which of them may be called now. The offer stays the same for the whole run: what a
    /// provider cached is bound to it.
    pub fn allowed(&self, toolless: bool) -> Option<Vec<String>> {
        if !toolless || !self.native {
            return None;
        }
        Some(if self.text_output {
            Vec::new()
        } else {
            vec![FINISH.to_owned()]
        })
    }

    /// Shows the model its unusable reply and what is wrong with it.
    pub fn correct(&mut self, reply: &Reply, feedback: &str) {
        for message in corrections(reply, feedback) {
            self.conversation.append(message);
        }
    }

    /// Adds a finished step: the reply, as far as it was `kept`, and what came back.
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
        // Each native call is answered under its id: providers refuse a history with a gap.
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

    /// Whether the conversation is near the end of the window.
    pub fn crowded(&self) -> bool {
        self.conversation.chars() > self.budget
    }

    /// Folds older steps to a line each, in place of their messages.
    ///
    /// Returns the number of the last folded step and the characters before and after, or `None`
    /// if there is nothing left to fold.
    pub fn compact(&mut self) -> Option<(u64, usize, usize)> {
        let upto = self.told.len().checked_sub(KEEP)?;
        if upto <= self.folded {
            return None;
        }
        let before = self.conversation.chars();
        let (old, recent) = self.told.split_at(upto);
        let lines: Vec<&str> = old.iter().map(|step| step.line.as_str()).collect();
        // Into the first message, not behind it: providers want roles to alternate.
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

/// Returns a message without what only its issuer understands: another beginning is another
/// conversation, in which what a provider signed does not hold.
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

/// Whether the provider withholds the reply: nothing of it counts.
pub(super) fn is_refused(reply: &Reply) -> bool {
    matches!(reply.finish.as_str(), "refusal" | "content_filter")
}

/// Returns why there is no reply, as far as its provider says so.
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

/// Returns what a model is told whose reply is not whole; nothing of such a reply counts.
pub(super) fn broken(reply: &Reply) -> Option<&'static str> {
    match reply.finish.as_str() {
        "malformed" => Some("Your tool call could not be read. Call the tool again."),
        "error" => {
            Some("Your reply was broken off by an error, and nothing of it was run. Send it again.")
        }
        _ => None,
    }
}

/// Returns what shows a model its unusable `reply` and what is wrong with it.
pub(super) fn corrections(reply: &Reply, feedback: &str) -> Vec<Message> {
    let calls = reply.calls();
    // A native call must be answered under its id, even if it could not be used.
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

/// Returns one observation as the model reads it. The frame stands first: what follows cannot pass
/// for another observation's head.
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
