"""Opik: traces and spans over its REST contract, while runs go on or after the fact, with measures
of runs that ended as feedback scores.

    agent = Agent("openai:gpt-5", log=traced("sqlite:runs.db"))

Where to is said by Opik's own variables: `OPIK_URL_OVERRIDE` (with `/api`), `OPIK_API_KEY`,
`OPIK_WORKSPACE`, `OPIK_PROJECT_NAME`. Needs no package of Opik's. The contract: POST
`/v1/private/traces/batch` and `/spans/batch`, PUT `/traces/feedback-scores`; ids are UUIDv7,
what comes again under the same id replaces what was there.
"""

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias, assert_never

import msgspec

from taofold.core.metrics import measure
from taofold.core.text import iso
from taofold.core.values import Usage
from taofold.log.log import Log
from taofold.log.open import open_log
from taofold.policy.redaction import Redactor
from taofold.telemetry.attributes import attributes, model_of, title
from taofold.telemetry.outbox import PATIENCE, Outbox, endpoint_of, send
from taofold.telemetry.prompt import Disclosure, Lengths
from taofold.telemetry.spans import (
    AgentSpan,
    ApprovalSpan,
    ModelSpan,
    Span,
    ToolSpan,
    uuid7,
)
from taofold.telemetry.traced_log import TracedLog

JSON: TypeAlias = dict[str, Any]
LOCAL_SERVER: Final = "http://localhost:5173/api"
_MANY: Final = 200
"""Spans in one request; Opik takes 1,000."""
_TYPES: Final[dict[type, str]] = {
    AgentSpan: "general",
    ModelSpan: "llm",
    ToolSpan: "tool",
    ApprovalSpan: "guardrail",
}


@dataclass(frozen=True)
class Opik:
    """A server and a project in it. The key is never shown."""

    url: str = LOCAL_SERVER
    key: str = field(default="", repr=False)
    workspace: str = "default"
    project: str = "taofold"

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> "Opik":
        """What Opik's own variables say."""
        variables = {
            "url": environment.get("OPIK_URL_OVERRIDE", ""),
            "key": environment.get("OPIK_API_KEY", ""),
            "workspace": environment.get("OPIK_WORKSPACE", ""),
            "project": environment.get("OPIK_PROJECT_NAME", ""),
        }
        return cls(**{name: value.strip() for name, value in variables.items() if value.strip()})

    def send(self, payload: "Payload", sleep: Callable[[float], None] = time.sleep) -> str:
        """Send now. Returns where it went.

        Raises:
            ExportFailed: Opik did not take it.
            ConfigError: the URL is none.
        """
        base = f"{self.url.rstrip('/')}/v1/private"
        address = endpoint_of(base)
        headers = {"Content-Type": "application/json", "Comet-Workspace": self.workspace}
        if self.key:
            headers["Authorization"] = self.key
        for method, path, body in payload.requests():
            encoded = msgspec.json.encode(body)
            # In order: traces before their spans, spans before scores.
            # A failure leaves the rest unsent; the ids are derived, so
            # an export sends everything again without doubling it.
            send(f"{base}{path}", encoded, headers, method=method, sleep=sleep)
        return address


class Payload(msgspec.Struct, frozen=True):
    """What is sent, in Opik's own words."""

    traces: list[JSON]
    spans: list[JSON]
    scores: list[JSON]

    def requests(self) -> list[tuple[str, str, JSON]]:
        """Method, path and body of each request."""
        batches: list[tuple[str, str, JSON]] = []
        if self.traces:
            batches.append(("POST", "/traces/batch", {"traces": self.traces}))
        for start in range(0, len(self.spans), _MANY):
            part = self.spans[start : start + _MANY]
            batches.append(("POST", "/spans/batch", {"spans": part}))
        if self.scores:
            batches.append(("PUT", "/traces/feedback-scores", {"scores": self.scores}))
        return batches


def traced(
    log: Log | str,
    opik: Opik | None = None,
    *,
    content: bool = False,
    redactor: Redactor | None = None,
) -> TracedLog:
    """`log`, of whose runs every span is sent to Opik when it is over.

    Args:
        log: a log or its name.
        opik: where to; None = what the environment says.
        content: Tell also what people, models and tools said, redacted.
        redactor: takes secrets out of content; by default those of the environment.

    Raises:
        ConfigError: the server's URL is none.
    """
    server = opik or Opik.from_environment()
    # Checked now: a wrong URL is said when the agent is made, not in a log line of the thread.
    endpoint_of(server.url)
    exporter = OpikExporter(server, content=content, redactor=redactor)
    return TracedLog(open_log(log), exporter, prompts=content)


class OpikExporter:
    """Sends spans to Opik from a thread of its own."""

    def __init__(
        self, opik: Opik, *, content: bool = False, redactor: Redactor | None = None
    ) -> None:
        self._translate = OpikTranslation(opik.project, content=content, redactor=redactor)
        self._opik = opik
        self._outbox: Outbox[Span] = Outbox(self._send)

    def export(self, spans: Sequence[Span]) -> None:
        """Queue the spans."""
        self._outbox.put(spans)

    def flush(self, seconds: float = PATIENCE) -> bool:
        """Waits until the queued spans are sent; False if the time was over first."""
        return self._outbox.flush(seconds)

    def close(self) -> None:
        """Send what is queued."""
        self._outbox.close()

    def _send(self, spans: Sequence[Span]) -> None:
        self._opik.send(self._translate(spans), self._outbox.pause)


class OpikTranslation:
    """Spans in Opik's words: the run is a trace, everything in it a span."""

    def __init__(
        self, project: str, *, content: bool = False, redactor: Redactor | None = None
    ) -> None:
        self._project = project
        secrets = redactor or Redactor(Redactor.secrets_in(os.environ))
        self._content = Disclosure(secrets.viewing(), Lengths.of()) if content else None

    def __call__(self, spans: Iterable[Span]) -> Payload:
        """The requests for these spans."""
        payload = Payload([], [], [])
        for span in spans:
            if isinstance(span, AgentSpan) and span.root:
                payload.traces.append(self._trace(span))
                payload.scores.extend(self._scores(span))
            payload.spans.append(self._span(span))
        return payload

    def _trace(self, span: AgentSpan) -> JSON:
        document = {
            **self._common(span, span.trace),
            "name": span.agent,
            "tags": sorted({span.strategy, span.status}),
        }
        if span.session:
            document["thread_id"] = span.session
        return document

    def _span(self, span: Span) -> JSON:
        document = {
            **self._common(span, span.id),
            "trace_id": uuid7(span.began, span.trace),
            "name": _name(span),
            "type": _TYPES[type(span)],
        }
        # A root's parent is a span of the application's, which Opik does not have.
        if span.parent and not (isinstance(span, AgentSpan) and span.root):
            # With the same time as the parent's own id: `began` is that of the whole trace.
            document["parent_span_id"] = uuid7(span.began, span.parent)
        if isinstance(span, ModelSpan):
            document["provider"], document["model"] = model_of(span)
            document["usage"] = _usage(span.usage, document["provider"])
            if span.usage.usd:
                document["total_estimated_cost"] = span.usage.usd
        return document

    def _common(self, span: Span, id_: str) -> JSON:
        document: JSON = {
            "id": uuid7(span.began, id_),
            "project_name": self._project,
            "start_time": iso(round(span.start)),
            "end_time": iso(round(span.end)),
            "metadata": attributes(span),
        }
        if span.error:
            message = self._text(span.message)
            document["error_info"] = {
                "exception_type": span.error,
                "message": message,
                "traceback": message or span.error,
            }
        if self._content is not None:
            document |= self._content_of(span)
        return document

    def _content_of(self, span: Span) -> JSON:
        match span:
            case AgentSpan():
                return {"input": {"goal": self._plain(span.goal)}, "output": self._out(span.output)}
            case ModelSpan():
                calls = [{"name": c.name, "arguments": c.arguments} for c in span.calls]
                reply = {"output": span.text, **({"tool_calls": calls} if calls else {})}
                return {"input": self._prompt(span), "output": self._plain(reply)}
            case ToolSpan():
                return {"input": self._plain(span.parameters), "output": self._out(span.result)}
            case ApprovalSpan():
                answer = {"verdict": span.verdict, "by": span.by}
                return {"input": self._plain(span.parameters), "output": self._plain(answer)}
            case _:
                assert_never(span)

    def _prompt(self, span: ModelSpan) -> JSON:
        """What was sent, in the form of the GenAI conventions."""
        content, prompt = self._content, span.prompt
        if content is None:
            return {}
        document: JSON = {"messages": msgspec.Raw(prompt.input(content).encode())}
        if system := prompt.system(content):
            document["system"] = system
        if definitions := prompt.definitions(content):
            document["tools"] = msgspec.Raw(definitions.encode())
        return document

    def _out(self, value: Any) -> JSON:
        return {} if value is None else {"output": self._plain(value)}

    def _plain(self, value: Any) -> Any:
        if isinstance(value, str):
            return self._text(value)
        return value if self._content is None else msgspec.Raw(self._content.json(value).encode())

    def _text(self, text: str) -> str:
        return "" if self._content is None else self._content.text(text)

    def _scores(self, span: AgentSpan) -> list[JSON]:
        return [
            {
                "id": uuid7(span.began, span.trace),
                "project_name": self._project,
                "name": name,
                "value": value,
                "source": "sdk",
            }
            for name, value in scores(span).items()
        ]


def scores(span: AgentSpan) -> dict[str, float]:
    """Measures of a run that has ended, between 0 and 1, by name. Takes some 0.1 ms per step."""
    if not span.stop_reason:
        return {}
    measured = measure(span.records)
    shares = {
        "observation_success_rate": measured.observation_success_rate,
        "grounding_score": measured.grounding_score,
        "exception_rate": measured.exception_rate,
    }
    ratios = {name: round(share / 100, 4) for name, share in shares.items() if share is not None}
    return {"success": float(span.success), **ratios}


def _usage(usage: Usage, provider: str) -> dict[str, int]:
    """The tokens in Opik's form: OpenAI's three, and what the provider itself would have said."""
    plain = {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.tokens,
    }
    if provider == "anthropic":
        tokens = {
            # Anthropic counts cached tokens apart; our `input_tokens` has them in it.
            "input_tokens": usage.input_tokens - usage.cached_tokens - usage.written_tokens,
            "output_tokens": usage.output_tokens,
            "cache_read_input_tokens": usage.cached_tokens,
            "cache_creation_input_tokens": usage.written_tokens,
        }
    else:
        tokens = {
            **plain,
            "prompt_tokens_details.cached_tokens": usage.cached_tokens,
            "completion_tokens_details.reasoning_tokens": usage.reasoning_tokens,
        }
    return plain | {f"original_usage.{name}": count for name, count in tokens.items()}


def _name(span: Span) -> str:
    """Without the operation, which the type says; an approval keeps it."""
    name = title(span)
    return name if isinstance(span, ApprovalSpan) else name.partition(" ")[2]
