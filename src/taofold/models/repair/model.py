"""The model `offline:repair`: a deterministic search behind the ordinary `Model` seam.

It needs no key and no network. It sees what a language model would see, the prompt, and
answers in the ordinary reply format. It opens no file, starts nothing and remembers
nothing between calls.
"""

from typing import Any, Final

from taofold.core.errors import ConfigError
from taofold.core.values import Profile, Reply
from taofold.models.repair.decide import decide
from taofold.runtime.model import OnText, Request

NAME: Final = "offline:repair"


class RepairModel:
    """Tries documented repair templates where failing tests point, one edit per turn.

    It declines every other goal. Its window is as large as it claims: it reads text, not
    tokens.
    """

    name = NAME
    profile = Profile(window=1_000_000, window_known=True, streaming=False)

    async def complete(self, request: Request, on_text: OnText | None = None) -> Reply:
        """The next move; a pure function of the request's conversation. Raises nothing."""
        text = decide(request.conversation, [tool.name for tool in request.tools])
        if on_text is not None:
            on_text(text)
        return Reply(text=text, model=NAME, finish="stop")

    def price(self, input_tokens: int, output_tokens: int) -> float | None:
        """Nothing: it runs here."""
        return 0.0


def connect(model: str, **options: Any) -> RepairModel:
    """The model behind `offline:repair`. Raises `ConfigError` for another name or an option."""
    if model != NAME.partition(":")[2]:
        raise ConfigError(f"no offline model {model!r}: the only one is {NAME!r}")
    if options:
        raise ConfigError(f"{NAME} takes no options, but got {', '.join(sorted(options))}")
    return RepairModel()
