"""What a span says in the words of OpenTelemetry's GenAI conventions and of OpenInference.

Back ends differ in which of the two they read, so each span has both. Names follow
github.com/open-telemetry/semantic-conventions-genai (state: development, `gen_ai.system` is
the older name of `gen_ai.provider.name`) and Arize's OpenInference. Without a redactor
nothing is told of what people, models and tools said: names, sizes and times only. Pure.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias, assert_never

import msgspec

from taofold.core.content import Message, ToolCall
from taofold.core.excerpt import excerpt
from taofold.policy.redaction import Redactor
from taofold.telemetry.spans import AgentSpan, ApprovalSpan, Mark, ModelSpan, Span, ToolSpan

Attributes: TypeAlias = dict[str, str | int | float | bool | list[str]]

LONGEST: Final = 16_000
"""Characters of an attribute. Longer text is cut to its ends and its error lines."""
_PROVIDERS: Final[Mapping[str, str]] = {
    "gemini": "gcp.gemini",
    "mistral": "mistral_ai",
    "xai": "x_ai",
}
"""Where the conventions have another word for a provider than we."""
_KINDS: Final[dict[type, str]] = {
    AgentSpan: "AGENT",
    ModelSpan: "LLM",
    ToolSpan: "TOOL",
    ApprovalSpan: "GUARDRAIL",
}


def title(span: Span) -> str:
    """The span's name. What a model called a tool that there is not stays out of it."""
    match span:
        case AgentSpan():
            return f"invoke_agent {span.agent}"
        case ModelSpan():
            return f"chat {model_of(span)[1]}"
        case ToolSpan():
            return f"execute_tool {tool_of(span)}"
        case ApprovalSpan():
            return f"approve {span.tool}"
        case _:
            assert_never(span)


def tool_of(span: ToolSpan) -> str:
    """The tool's name, which is the model's free text where there is no such tool."""
    return "unknown" if span.refused in ("unknown", "malformed") else span.tool


def model_of(span: ModelSpan | AgentSpan) -> tuple[str, str]:
    """Provider and model, taken from `provider:model`; the provider may be unknown ("")."""
    requested = span.model if isinstance(span, AgentSpan) else span.requested
    provider, colon, name = requested.partition(":")
    if not colon:
        provider, name = "", requested
    if isinstance(span, ModelSpan):
        name = span.model.removeprefix(f"{provider}:") if provider else span.model
    return _PROVIDERS.get(provider, provider), name


def attributes(span: Span, content: Redactor | None = None) -> Attributes:
    """Everything that is told about `span`; with `content` also what was said, redacted."""
    found: Attributes = {
        "openinference.span.kind": _KINDS[type(span)],
        "taofold.run.id": span.run,
    }
    if span.error:
        found["error.type"] = span.error
    match span:
        case AgentSpan():
            _agent(span, found)
        case ModelSpan():
            _model(span, found)
        case ToolSpan():
            _tool(span, found)
        case ApprovalSpan():
            found["taofold.approval.tool"] = span.tool
            found["taofold.approval.tier"] = span.tier
            found["taofold.approval.verdict"] = span.verdict
        case _:
            assert_never(span)
    if content is not None:
        found.update(_content(span, content))
    return found


def mark_attributes(mark: Mark, content: Redactor | None = None) -> Attributes:
    """The same for a moment of a run."""
    found: Attributes = {f"taofold.{name}": fact for name, fact in mark.facts.items()}
    if content is not None and mark.said:
        found["taofold.said"] = _said(mark.said, content)
    return found


def _agent(span: AgentSpan, found: Attributes) -> None:
    provider, model = model_of(span)
    found["gen_ai.operation.name"] = "invoke_agent"
    found["gen_ai.agent.name"] = found["agent.name"] = span.agent
    found["gen_ai.request.model"] = model
    _provider(provider, found)
    if span.session:
        found["gen_ai.conversation.id"] = found["session.id"] = span.session
    found["gen_ai.usage.input_tokens"] = span.usage.input_tokens
    found["gen_ai.usage.output_tokens"] = span.usage.output_tokens
    found["taofold.strategy"] = span.strategy
    found["taofold.status"] = span.status
    found["taofold.steps"] = span.steps
    if span.stop_reason:
        found["taofold.stop_reason"] = span.stop_reason
        found["taofold.success"] = span.success
    if span.forked_from:
        found["taofold.forked_from"] = span.forked_from


def _model(span: ModelSpan, found: Attributes) -> None:
    provider, model = model_of(span)
    found["gen_ai.operation.name"] = "chat"
    found["gen_ai.request.model"] = span.requested.partition(":")[2] or span.requested
    found["gen_ai.response.model"] = found["llm.model_name"] = model
    _provider(provider, found)
    usage = span.usage
    found["gen_ai.usage.input_tokens"] = found["llm.token_count.prompt"] = usage.input_tokens
    found["gen_ai.usage.output_tokens"] = found["llm.token_count.completion"] = usage.output_tokens
    found["llm.token_count.total"] = usage.tokens
    if usage.cached_tokens:
        found["gen_ai.usage.cache_read.input_tokens"] = usage.cached_tokens
        found["llm.token_count.prompt_details.cache_read"] = usage.cached_tokens
    if usage.usd:
        found["llm.cost.total"] = usage.usd
    if span.finish:
        found["gen_ai.response.finish_reasons"] = [span.finish]
    if span.role:
        found["taofold.role"] = span.role
    if span.cached:
        found["taofold.cached"] = True


def _tool(span: ToolSpan, found: Attributes) -> None:
    name = tool_of(span)
    found["gen_ai.operation.name"] = "execute_tool"
    found["gen_ai.tool.name"] = found["tool.name"] = name
    found["gen_ai.tool.type"] = "function"
    found["gen_ai.tool.call.id"] = found["tool_call.id"] = span.call
    if span.thought_type:
        found["taofold.thought.type"] = span.thought_type
    if span.refused:
        found["taofold.refused"] = span.refused


def _provider(provider: str, found: Attributes) -> None:
    if provider:
        found["gen_ai.provider.name"] = found["gen_ai.system"] = found["llm.provider"] = provider


def _content(span: Span, content: Redactor) -> Attributes:
    """What was said, by whom it may be read. Everything goes through the redactor once more."""
    found: Attributes = {}
    if span.message:
        found["error.message"] = _said(span.message, content)
    match span:
        case AgentSpan():
            _value("input", span.goal, found, content)
            if span.output is not None:
                _value("output", span.output, found, content)
        case ModelSpan():
            _messages(span, found, content)
        case ToolSpan():
            _value("input", span.parameters, found, content)
            found["gen_ai.tool.call.arguments"] = found["input.value"]
            found["tool.parameters"] = found["input.value"]
            if span.result is not None:
                _value("output", span.result, found, content)
                found["gen_ai.tool.call.result"] = found["output.value"]
                found["tool.output"] = found["output.value"]
            if span.thought:
                found["taofold.thought"] = _said(span.thought, content)
            if tool_of(span) != span.tool:
                found["taofold.tool.called"] = _said(span.tool, content)
        case ApprovalSpan():
            _value("input", span.parameters, found, content)
            found["taofold.approval.by"] = span.by
            found["taofold.approval.reason"] = _said(span.reason, content)
        case _:
            assert_never(span)
    return found


def _messages(span: ModelSpan, found: Attributes, content: Redactor) -> None:
    heard = [(message, _said(message.shown, content)) for message in span.heard]
    for index, (message, said) in enumerate(heard):
        found[f"llm.input_messages.{index}.message.role"] = message.role
        found[f"llm.input_messages.{index}.message.content"] = said
    found["gen_ai.input.messages"] = _json([_message(one, said) for one, said in heard])
    if heard:
        found["input.value"] = heard[-1][1]
    text, calls = _said(span.text, content), _calls(span.calls, content)
    found["llm.output_messages.0.message.role"] = "assistant"
    found["llm.output_messages.0.message.content"] = text
    for index, (name, arguments, id_) in enumerate(calls):
        place = f"llm.output_messages.0.message.tool_calls.{index}.tool_call"
        found[f"{place}.id"] = id_
        found[f"{place}.function.name"] = name
        found[f"{place}.function.arguments"] = arguments
    parts: list[dict[str, Any]] = [{"type": "text", "content": text}] if text else []
    if span.reasoning:
        parts.insert(0, {"type": "reasoning", "content": _said(span.reasoning, content)})
    parts += [
        {"type": "tool_call", "id": id_, "name": name, "arguments": arguments}
        for name, arguments, id_ in calls
    ]
    reply = {"role": "assistant", "parts": parts, "finish_reason": span.finish or "stop"}
    found["gen_ai.output.messages"] = _json([reply])
    found["output.value"] = text or found["gen_ai.output.messages"]


def _calls(calls: Iterable[ToolCall], content: Redactor) -> list[tuple[str, str, str]]:
    return [(_said(one.name, content), _said(one.arguments, content), one.id) for one in calls]


def _message(message: Message, said: str) -> dict[str, Any]:
    if message.role == "tool":
        part = {
            "type": "tool_call_response",
            "id": message.results[0].id if message.results else "",
            "response": said,
        }
    else:
        part = {"type": "text", "content": said}
    return {"role": message.role, "parts": [part]}


def _value(word: str, value: Any, found: Attributes, content: Redactor) -> None:
    text = isinstance(value, str)
    found[f"{word}.value"] = _said(value, content) if text else _json(content.json(value))
    found[f"{word}.mime_type"] = "text/plain" if text else "application/json"


def _said(text: str, content: Redactor) -> str:
    return excerpt(content.text(text), LONGEST)


def _json(value: Any) -> str:
    return excerpt(msgspec.json.encode(value).decode(), LONGEST)
