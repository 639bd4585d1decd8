"""Small words for tests of flows."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from taofold import Agent
from taofold.core.values import Reply
from taofold.files import Config, Fault, build, read_agent
from taofold.files.actions import Actions
from taofold.files.checked_yaml import parse
from taofold.files.flow.file import read_flow
from taofold.runtime.model import Request
from taofold.testing.models import FunctionModel


def faults(text: str, folder: Path = Path()) -> list[Fault]:
    """Returns the faults of a flow file."""
    document, found = parse(text, "flow.yaml", folder)
    return found if document is None else read_flow(document, root=folder)[1]


def made(
    text: str, folder: Path, actions: Actions | None = None, *, allow_python: bool = False
) -> Agent[Any, Any]:
    """The agent that a file describes."""
    path = folder / "flow.yaml"
    path.write_text(text)
    if actions is None:
        file, found = read_agent(path, root=folder)
    else:
        document, found = parse(text, "flow.yaml", folder)
        assert document is not None
        file, found = read_flow(document, root=folder, actions=actions)
    assert file is not None, [str(one) for one in found]
    return build(file, Config(), folder, allow_python=allow_python)


def with_model(agent: Agent[Any, Any], model: Any, **changes: Any) -> Agent[Any, Any]:
    """The agent with `model` in every place."""
    return agent.replace(model=model, models=dict.fromkeys(agent.models, model), **changes)


def echo(request: Request) -> str:
    """Replies with the last request."""
    return f"said: {request.conversation[-1].content}"


def flow(
    text: str,
    folder: Path,
    say: Callable[[Request], str | Reply] = echo,
    **changes: Any,
) -> Agent[Any, Any]:
    """Returns the agent of a file, with a model that answers with `say`."""
    return with_model(made(text, folder), FunctionModel(say), **changes)


def reasoned(answer: Any, thinking: str = "because") -> str:
    """A reply of a chain of thought."""
    return json.dumps({"thinking": thinking, "answer": answer})
