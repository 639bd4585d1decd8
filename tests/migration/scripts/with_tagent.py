"""Runs a program of TAgent with scripted replies instead of LiteLLM's, which is not installed."""

import json
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

program, replies = Path(sys.argv[1]), iter(json.loads(sys.argv[2]))


def completion(**options) -> SimpleNamespace:
    message = SimpleNamespace(content=next(replies)["text"])
    return SimpleNamespace(choices=[SimpleNamespace(message=message)], usage=None)


class LiteLLM(ModuleType):
    """The names of LiteLLM that TAgent 0.7 uses."""

    completion = staticmethod(completion)
    get_supported_openai_params = staticmethod(lambda model: [])
    completion_cost = staticmethod(lambda **options: 0.0)
    get_max_tokens = staticmethod(lambda model: 100_000)
    token_counter = staticmethod(lambda model, text="", **options: len(text) // 4)
    exceptions = SimpleNamespace(APIError=RuntimeError)
    AuthenticationError = APIError = ContextWindowExceededError = RuntimeError


sys.modules["litellm"] = LiteLLM("litellm")
exec(compile(program.read_text("utf-8"), program.name, "exec"), {"__name__": "__main__"})
