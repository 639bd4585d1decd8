"""The model of a flow whose nodes name every model that they call."""

from typing import Final, NoReturn

from taofold.core.errors import ConfigError
from taofold.core.values import Profile
from taofold.runtime.model import OnText, Request

NO_MODEL: Final = (
    "no model: pass --model provider:model, set TAOFOLD_MODEL, or write `model:` in the "
    "agent file or in .taofold/config.yml. Without a key: test:tools tries an agent, "
    "offline:repair repairs failing Python tests"
)


class UnaskedModel:
    """Stands in for the model of a flow that never calls it. Refuses every request."""

    name: str = "no model"
    profile: Profile = Profile()

    async def complete(self, request: Request, on_text: OnText | None = None) -> NoReturn:
        """Raises `ConfigError`: an action called a model that it does not declare."""
        raise ConfigError(NO_MODEL)

    def price(self, input_tokens: int, output_tokens: int) -> float:
        """Returns 0.0."""
        return 0.0
