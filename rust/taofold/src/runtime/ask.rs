//! Model calls: returns the recorded reply if there is one, and otherwise calls within the limits.

use crate::content::{Content, Conversation, Part, ThinkingPart};
use crate::effects::{Ask, Halt, Resolution};
use crate::errors::ModelError;
use crate::events::{AskFailed, Cut, Event, LimitHit, PromptChanged, Replied};
use crate::json::to_value;
use crate::model::{Model, Request, ToolOffer};
use crate::policy::{Limit, Redactor, Reserved, is_masked};
use crate::runtime::drive::limit_hit;
use crate::runtime::ledger::{Interrupt, Ledger};
use crate::runtime::recording::diverged;
use crate::runtime::setup::Setup;
use crate::values::{ModelSettings, Reply};

pub(super) async fn perform(
    ledger: &Ledger<'_>,
    key: &str,
    mut ask: Ask,
) -> Result<Resolution, Interrupt> {
    let mut conversation = std::mem::take(&mut ask.conversation);
    let prompt = prompt_digest(&conversation);
    while let Some(record) = take(ledger, "cut", key) {
        ledger.book().restore(Some(record))?;
        conversation.cut();
    }
    if let Some(reply) = earlier(ledger, key, &prompt, ask.tolerant)? {
        return Ok(Resolution::Reply(Box::new(reply), conversation));
    }
    ledger.touch(key)?;
    let forbidden = {
        let (book, limits) = (ledger.book(), &ledger.setup.limits);
        let hit = limits.hit(&book.state, false);
        // Child runs in other branches may consume their complete reservations at the same time.
        let beside = Reserved::sum(book.reserved.values());
        let shared = !book.reserved.is_empty();
        hit.or_else(|| limits.hit_beside(&book.state, &beside).filter(|_| shared))
    };
    if let Some(limit) = forbidden {
        ledger.put(LimitHit {
            allowed: ledger.setup.limits.bound(limit).unwrap_or_default(),
            ..limit_hit(key, limit, 1.0)
        })?;
        return Err(halted(limit));
    }
    ledger.flush().await?;
    ledger.read_inbox().await?;

    let setup = ledger.setup;
    let model = setup.models.get(&ask.model, ask.role);
    let profile = model.profile();
    let offered = |name: &String| ask.tools.contains(name);
    let own = setup.tools.offers().into_iter();
    // The reserved actions belong to the loop; a native caller calls them like any other tool.
    let offers: Vec<_> = own
        .chain(setup.reserved.iter().cloned())
        .filter(|offer| profile.native_tools && offered(&offer.name))
        .collect();
    let settings = ask.settings.over(&setup.settings);
    let began = setup.clock.steady_ms();
    let mut outcome = ask_model(
        model.as_ref(),
        &conversation,
        &offers,
        &settings,
        &ask,
        setup,
    )
    .await;
    if let Err(error) = &outcome
        && error.kind == "binding"
        && conversation.is_bound()
    {
        // The provider rejects its own signed content, as after a changed prompt, so the
        // conversation continues without it. The cut is durable first, so that no later activation
        // sends the content again.
        cut(ledger, key, &mut conversation, &error.message)?;
        ledger.flush().await?;
        outcome = ask_model(
            model.as_ref(),
            &conversation,
            &offers,
            &settings,
            &ask,
            setup,
        )
        .await;
    }
    let ms = setup.clock.steady_ms().saturating_sub(began);
    let reply = match outcome {
        Ok(reply) => reply,
        Err(error) => {
            return failed(ledger, key, error, ask.tolerant)
                .map(|reply| Resolution::Reply(Box::new(reply), conversation));
        }
    };
    let content = redacted(&setup.redactor, reply.content.clone());
    let masked = is_masked(
        &to_value(&reply.content).to_string(),
        &to_value(&content).to_string(),
    );
    let reply = Reply { content, ..reply };
    ledger.put(Replied {
        key: key.to_owned(),
        prompt,
        content: reply.content.clone(),
        usage: reply.usage,
        model: reply.model.clone(),
        finish: reply.finish.clone(),
        role: ask.role,
        #[expect(clippy::cast_precision_loss, reason = "a call lasts less than 2^53 ms")]
        ms: ms as f64,
        issuer: reply.issuer.clone(),
        notes: reply.notes.clone(),
        masked,
        ..Replied::default()
    })?;
    Ok(Resolution::Reply(Box::new(reply), conversation))
}

async fn ask_model(
    model: &dyn Model,
    conversation: &Conversation,
    offers: &[ToolOffer],
    settings: &ModelSettings,
    ask: &Ask,
    setup: &Setup,
) -> Result<Reply, ModelError> {
    let request = Request {
        conversation,
        tools: offers,
        allowed: ask.allowed.as_deref().filter(|_| !offers.is_empty()),
        schema: ask.schema.as_ref().filter(|_| model.profile().json_schema),
        settings,
        on_text: setup.on_text.as_deref(),
    };
    model.ask(request).await
}

/// Removes opaque content, which only a provider understands, from all messages so far.
fn cut(
    ledger: &Ledger<'_>,
    key: &str,
    conversation: &mut Conversation,
    why: &str,
) -> Result<(), Interrupt> {
    const DETAIL: usize = 500;
    let why = ledger.setup.redactor.text(why);
    ledger.put(Cut {
        key: key.to_owned(),
        reason: "refused".to_owned(),
        messages: conversation.messages().len() as u64,
        detail: why.chars().take(DETAIL).collect(),
    })?;
    conversation.cut();
    Ok(())
}

/// The prefix of a prompt's digest that names the runtime that wrote the prompt.
pub(super) const RUNTIME: &str = "rust:";
/// The name of this runtime in the log.
pub(super) const NAME: &str = "rust";

fn prompt_digest(conversation: &Conversation) -> String {
    format!("{RUNTIME}{}", conversation.digest())
}

/// Returns the recorded reply or failure of the call; `None` if the call must be made.
fn earlier(
    ledger: &Ledger<'_>,
    key: &str,
    prompt: &str,
    tolerant: bool,
) -> Result<Option<Reply>, Interrupt> {
    let (replied, failed, limit) = {
        let book = ledger.book();
        let peek = |kind| book.recording.peek(kind, key, None).cloned();
        (peek("replied"), peek("ask_failed"), peek("limit_hit"))
    };
    if let Some(Event::Replied(recorded)) = replied {
        return reply_of(ledger, key, recorded, prompt).map(Some);
    }
    if let Some(Event::LimitHit(event)) = limit {
        let limit = Limit::named(&event.limit);
        ledger.put(event)?;
        return Err(limit.map_or(Interrupt::EndOfTape, halted));
    }
    if let Some(Event::AskFailed(event)) = failed {
        let overflow = event.kind == "overflow";
        let exact = ledger.book().recording.exact;
        if overflow || tolerant || exact {
            let error = ModelError::new(event.kind.as_str(), event.message.as_str());
            ledger.put(event)?;
            return without_reply(error, tolerant).map(Some);
        }
        // On resume a failed call is repeated.
        while let Some(record) = take(ledger, "ask_failed", key) {
            ledger.book().restore(Some(record))?;
        }
    }
    Ok(None)
}

fn take(ledger: &Ledger<'_>, kind: &str, key: &str) -> Option<u64> {
    let record = ledger.book().recording.take(kind, key, None);
    record.map(|record| record.seq)
}

fn reply_of(
    ledger: &Ledger<'_>,
    key: &str,
    recorded: Replied,
    prompt: &str,
) -> Result<Reply, Interrupt> {
    let changed = recorded.prompt != prompt;
    let exact = ledger.book().recording.exact;
    // Another runtime words its prompts differently.
    let own = recorded.prompt.starts_with(RUNTIME);
    if changed && exact && own {
        let requested = Replied {
            prompt: prompt.to_owned(),
            ..recorded.clone()
        };
        return Err(diverged(key, Some(&recorded.into()), Some(&requested.into())).into());
    }
    if changed && !exact {
        ledger.book().note_change(PromptChanged {
            key: key.to_owned(),
            recorded: recorded.prompt.clone(),
            requested: prompt.to_owned(),
        });
    }
    for kind in ["ask_failed", "replied"] {
        while let Some(record) = take(ledger, kind, key) {
            ledger.book().restore(Some(record))?;
        }
    }
    let mut content = recorded.content;
    if is_stored_apart(&content) {
        content = content.without_issuer_parts();
    }
    Ok(Reply {
        content,
        usage: recorded.usage,
        model: recorded.model,
        finish: recorded.finish,
        issuer: recorded.issuer,
        notes: recorded.notes,
    })
}

/// Returns true if a part is stored beside the log, where only the Python runtime reads it.
///
/// Without that part, the remaining opaque parts would not verify.
fn is_stored_apart(content: &Content) -> bool {
    let apart = |part: &Part| matches!(part, Part::Opaque(part) if !part.digest.is_empty());
    content.to_parts().iter().any(apart)
}

/// Records a failure. The strategy shortens a conversation that is too long.
fn failed(
    ledger: &Ledger<'_>,
    key: &str,
    error: ModelError,
    tolerant: bool,
) -> Result<Reply, Interrupt> {
    let message = ledger.setup.redactor.text(&error.message).into_owned();
    ledger.put(AskFailed {
        key: key.to_owned(),
        kind: error.kind.clone(),
        message: message.clone(),
    })?;
    without_reply(ModelError { message, ..error }, tolerant)
}

/// Converts a failure that the strategy handles to a reply without text.
///
/// These are overlong conversations, and any failure if the call is `tolerant`.
fn without_reply(error: ModelError, tolerant: bool) -> Result<Reply, Interrupt> {
    let finish = match error.kind.as_str() {
        "overflow" => "overflow",
        _ if tolerant => "error",
        _ => return Err(error.into()),
    };
    let thinking = Part::Thinking(ThinkingPart {
        text: error.message,
        echo: String::new(),
    });
    Ok(Reply {
        content: Content::Parts(vec![thinking]),
        finish: finish.to_owned(),
        ..Reply::default()
    })
}

fn halted(limit: Limit) -> Interrupt {
    Interrupt::Halt(Halt {
        reason: limit.stop_reason().to_owned(),
        ..Halt::default()
    })
}

/// Removes known secrets from a reply. Opaque parts stay, because only their issuer can read them.
fn redacted(redactor: &Redactor, content: Content) -> Content {
    match content {
        Content::Text(text) => Content::Text(redactor.text(&text).into_owned()),
        Content::Parts(parts) => Content::Parts(
            parts
                .into_iter()
                .map(|part| match part {
                    Part::Text(mut part) => {
                        part.text = redactor.text(&part.text).into_owned();
                        Part::Text(part)
                    }
                    Part::Thinking(mut part) => {
                        part.text = redactor.text(&part.text).into_owned();
                        Part::Thinking(part)
                    }
                    Part::Call(mut call) => {
                        call.arguments = redactor.text(&call.arguments).into_owned();
                        Part::Call(call)
                    }
                    other => other,
                })
                .collect(),
        ),
    }
}
