"""Attributes of spans, events, links and exceptions, by OpenTelemetry GenAI and OpenInference.

Back ends differ in the names they read, so each span has its kind, names, sizes and single values
in both. Whole conversations are in the GenAI form only. Names follow
github.com/open-telemetry/semantic-conventions-genai 0.1.0 and Arize's OpenInference. Older names
that back ends still read are kept beside their successors: `gen_ai.system`, `cache_creation`.
Without `Disclosure` there are only names, sizes and times, but no texts of users, models or tools.
Pure.
"""

import builtins
from collections.abc import Mapping
from typing import Any, Final, TypeAlias, assert_never

import msgspec

from taofold.core.reply import Usage
from taofold.telemetry.prompt import Disclosure, call_of
from taofold.telemetry.spans import AgentSpan, ApprovalSpan, Link, Mark, ModelSpan, Span, ToolSpan

Attributes: TypeAlias = dict[str, str | int | float | bool | list[str]]

_PROVIDERS: Final[Mapping[str, str]] = {
    "gemini": "gcp.gemini",
    "mistral": "mistral_ai",
    "openai-chat": "openai",
    "openai-compatible": "openai",
    "xai": "x_ai",
}
"""Providers with a different name in the conventions."""
_KINDS: Final[dict[type, str]] = {
    AgentSpan: "AGENT",
    ModelSpan: "LLM",
    ToolSpan: "TOOL",
    ApprovalSpan: "GUARDRAIL",
}
_FINISH: Final[Mapping[str, str]] = {"": "stop", "tool_calls": "tool_call", "overflow": "error"}
"""Finish reasons with a different name in the conventions."""
_PYTHONS_OWN: Final = frozenset(
    [
        n
        for n, kind in vars(builtins).items()
        if isinstance(kind, type) and issubclass(kind, Exception)
    ]
)
_RAISED: Final = frozenset({"failure", "timeout", "interrupted", "error"})
"""Errors that come from an exception, unlike a refusal."""


def title(span: Span) -> str:
    """Returns the span's name, without names of tools that do not exist."""
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
    """Returns the tool's name; "unknown" if a model named a tool that does not exist."""
    # Back ends group by span names. Free text would make a group for each call.
    return "unknown" if span.refused in ("unknown", "malformed") else span.tool


def model_of(span: ModelSpan | AgentSpan) -> tuple[str, str]:
    """Returns provider ("" = unknown) and model, taken from `provider:model`."""
    requested = span.model if isinstance(span, AgentSpan) else span.requested
    provider, colon, name = requested.partition(":")
    if not colon:
        provider, name = "", requested
    if isinstance(span, ModelSpan):
        # The model that answered, which may differ from the requested one.
        name = span.model.removeprefix(f"{provider}:") if provider else span.model
    return _PROVIDERS.get(provider, provider), name


def attributes(span: Span, content: Disclosure | None = None) -> Attributes:
    """Returns the attributes of `span`; with `content` also the content, redacted."""
    result: Attributes = {
        "openinference.span.kind": _KINDS[type(span)],
        "gen_ai.agent.name": span.agent,
        "taofold.run.id": span.run,
    }
    if span.session:
        result["gen_ai.conversation.id"] = result["session.id"] = span.session
    if span.user:
        result["user.id"] = span.user
    if span.error:
        result["error.type"] = _raised(span) if span.error in _RAISED else span.error
    match span:
        case AgentSpan():
            _agent(span, result)
        case ModelSpan():
            _model(span, result)
        case ToolSpan():
            _tool(span, result)
        case ApprovalSpan():
            result["taofold.approval.tool"] = span.tool
            result["taofold.approval.tier"] = span.tier
            result["taofold.approval.verdict"] = span.verdict
        case _:
            assert_never(span)
    if content is not None:
        result.update(_content(span, content))
    return result


def mark_attributes(mark: Mark, content: Disclosure | None = None) -> Attributes:
    """Returns the attributes of an event of a run."""
    result: Attributes = {f"taofold.{name}": fact for name, fact in mark.facts.items()}
    if content is not None and mark.quoted:
        result["taofold.said"] = content.text(mark.quoted)
    return result


def link_attributes(link: Link) -> Attributes:
    """Returns the attributes of a link."""
    return {"taofold.link": link.why}


def exception_attributes(span: Span, content: Disclosure | None = None) -> Attributes | None:
    """Returns the attributes of the event `exception`, None if the span's work raised none.

    A tool's error begins with the name of its class. The name of one of Python's own is
    always sent; any other is text of the tool's, and sent with content only.
    """
    # A refused call never ran, so nothing was raised.
    if not span.error or (isinstance(span, ToolSpan) and span.refused):
        return None
    if not isinstance(span, ModelSpan) and span.error not in _RAISED:
        return None
    kind, colon, _ = span.message.partition(": ")
    result: Attributes = {"exception.type": "ModelError" if _is_model(span) else _raised(span)}
    if content is not None and span.message:
        if colon and kind.isidentifier() and not _is_model(span):
            result["exception.type"] = content.text(kind)
        result["exception.message"] = content.text(span.message)
    return result


def _raised(span: Span) -> str:
    """Returns the exception's class if it is one of Python's own, else the kind of error.

    The name of another class is text of the tool.
    """
    kind = span.message.partition(": ")[0]
    return kind if kind in _PYTHONS_OWN else span.error


def _is_model(span: Span) -> bool:
    return isinstance(span, ModelSpan)


def _agent(span: AgentSpan, result: Attributes) -> None:
    provider, model = model_of(span)
    result["gen_ai.operation.name"] = "invoke_agent"
    result["agent.name"] = span.agent
    result["gen_ai.request.model"] = model
    _provider(provider, result)
    # Not `gen_ai.usage`, because the child spans have it and back ends add it up.
    usage = span.usage
    result["gen_ai.aggregated_usage.input_tokens"] = usage.input_tokens
    result["gen_ai.aggregated_usage.output_tokens"] = usage.output_tokens
    for name, count in _details(usage):
        result[f"gen_ai.aggregated_usage.{name}"] = count
    result["taofold.strategy"] = span.strategy
    result["taofold.status"] = span.status
    result["taofold.steps"] = span.steps
    if span.stop_reason:
        result["taofold.stop_reason"] = span.stop_reason
        result["taofold.success"] = span.success
    if span.forked_from:
        result["taofold.forked_from"] = span.forked_from


def _model(span: ModelSpan, result: Attributes) -> None:
    provider, model = model_of(span)
    result["gen_ai.operation.name"] = "chat"
    result["gen_ai.request.model"] = span.requested.partition(":")[2] or span.requested
    _provider(provider, result)
    prompt = span.prompt
    if prompt.temperature is not None:
        result["gen_ai.request.temperature"] = prompt.temperature
    if prompt.max_tokens:
        result["gen_ai.request.max_tokens"] = prompt.max_tokens
    if span.role:
        result["taofold.role"] = span.role
    if span.issuer is not None:
        _server(span.issuer.host, result)
    if span.error:
        return
    result["gen_ai.response.model"] = result["llm.model_name"] = model
    usage = span.usage
    result["gen_ai.usage.input_tokens"] = result["llm.token_count.prompt"] = usage.input_tokens
    result["gen_ai.usage.output_tokens"] = result["llm.token_count.completion"] = (
        usage.output_tokens
    )
    result["llm.token_count.total"] = usage.tokens
    for name, count in _details(usage):
        result[f"gen_ai.usage.{name}"] = count
    for name, count in (
        ("prompt_details.cache_read", usage.cached_tokens),
        ("prompt_details.cache_write", usage.written_tokens),
        ("completion_details.reasoning", usage.reasoning_tokens),
    ):
        if count:
            result[f"llm.token_count.{name}"] = count
    if usage.usd:
        result["llm.cost.total"] = usage.usd
    if span.finish:
        result["gen_ai.response.finish_reasons"] = [_FINISH.get(span.finish, span.finish)]
    if span.cached:
        result["taofold.cached"] = True


def _tool(span: ToolSpan, result: Attributes) -> None:
    name = tool_of(span)
    result["gen_ai.operation.name"] = "execute_tool"
    result["gen_ai.tool.name"] = result["tool.name"] = name
    result["gen_ai.tool.type"] = "function"
    result["gen_ai.tool.call.id"] = result["tool_call.id"] = span.call
    if span.thought_type:
        result["taofold.thought.type"] = span.thought_type
    if span.refused:
        result["taofold.refused"] = span.refused
    for name, figure in span.figures.items():
        result[f"taofold.{name}"] = figure


def _details(usage: Usage) -> list[tuple[str, int]]:
    """Returns the counts of tokens of a special kind that are not 0."""
    counts = [
        ("cache_read.input_tokens", usage.cached_tokens),
        ("cache_write.input_tokens", usage.written_tokens),
        # The name before semantic-conventions-genai 0.1.0, which back ends still read.
        ("cache_creation.input_tokens", usage.written_tokens),
        ("reasoning.output_tokens", usage.reasoning_tokens),
    ]
    return [(name, count) for name, count in counts if count]


def _server(host: str, result: Attributes) -> None:
    """Adds the server from `host` or `host:port`; "bedrock:eu-west-1" is no address."""
    address, colon, port = host.rpartition(":")
    if not colon:
        address = port
    elif port.isdecimal():
        result["server.port"] = int(port)
    else:
        return
    if address:
        result["server.address"] = address


def _provider(provider: str, result: Attributes) -> None:
    if provider:
        # The conventions' name, their older name, which back ends read, and OpenInference's.
        result["gen_ai.provider.name"] = result["gen_ai.system"] = result["llm.provider"] = provider


def _content(span: Span, content: Disclosure) -> Attributes:
    """Returns the content of `span`. The redactor processes all of it once more."""
    result: Attributes = {}
    if span.message:
        result["error.message"] = content.text(span.message)
    match span:
        case AgentSpan():
            _value("input", span.goal, result, content)
            if span.output is not None:
                _value("output", span.output, result, content)
            if span.instructions:
                system = [{"type": "text", "content": content.text(span.instructions)}]
                result["gen_ai.system_instructions"] = _json(system)
        case ModelSpan():
            _messages(span, result, content)
        case ToolSpan():
            _called(span, result, content)
        case ApprovalSpan():
            _value("input", span.parameters, result, content)
            result["taofold.approval.by"] = span.by
            result["taofold.approval.reason"] = content.text(span.reason)
        case _:
            assert_never(span)
    return result


def _called(span: ToolSpan, result: Attributes, content: Disclosure) -> None:
    _value("input", span.parameters, result, content)
    result["gen_ai.tool.call.arguments"] = result["tool.parameters"] = result["input.value"]
    if span.result is not None:
        _value("output", span.result, result, content)
        result["gen_ai.tool.call.result"] = result["tool.output"] = result["output.value"]
    if span.thought:
        result["taofold.thought"] = content.text(span.thought)
    if tool_of(span) != span.tool:
        result["taofold.tool.called"] = content.text(span.tool)


def _messages(span: ModelSpan, result: Attributes, content: Disclosure) -> None:
    prompt = span.prompt
    result["taofold.prompt"] = "sent" if prompt.exact else "rebuilt"
    if system := prompt.system(content):
        result["gen_ai.system_instructions"] = _json(system)
    result["gen_ai.input.messages"] = prompt.input(content)
    if definitions := prompt.definitions(content):
        result["gen_ai.tool.definitions"] = definitions
    if prompt.messages:
        result["input.value"] = content.text(prompt.messages[-1].shown)
    if span.error:
        return
    text = content.text(span.text)
    parts: list[dict[str, Any]] = [{"type": "text", "content": text}] if text else []
    if span.reasoning:
        parts.insert(0, {"type": "reasoning", "content": content.text(span.reasoning)})
    parts += [call_of(call, content) for call in span.calls]
    finish = _FINISH.get(span.finish, span.finish)
    result["gen_ai.output.messages"] = _json(
        [{"role": "assistant", "parts": parts, "finish_reason": finish}]
    )
    # A reply may consist of tool calls only.
    result["output.value"] = text or result["gen_ai.output.messages"]


def _value(word: str, value: Any, result: Attributes, content: Disclosure) -> None:
    text = isinstance(value, str)
    result[f"{word}.value"] = content.text(value) if text else content.json(value)
    result[f"{word}.mime_type"] = "text/plain" if text else "application/json"


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
