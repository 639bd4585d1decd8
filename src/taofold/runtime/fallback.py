"""Several models as one: the first that works answers.

Only failures that another provider may not share move on to the next: a bad key, a rate
limit, an outage, no network, a timeout. It knows nothing about providers.
"""

import time
from collections.abc import Callable, Sequence
from typing import Final, get_args

from taofold.core.content import Issuer
from taofold.core.errors import ConfigError, ModelError
from taofold.core.values import Profile, Reply, Thinking
from taofold.runtime.model import Model, OnText, Request

NEXT: Final = frozenset({"auth", "server", "network", "rate", "timeout"})
"""The kinds of `ModelError` after which the next model is asked."""
_REST: Final = 60.0


class Speaker:
    """Tells a listener a text that may have to be started again.

    What it has said is not said twice; once a new attempt says something else it falls
    silent: the reply, not its deltas, is the fact.
    """

    __slots__ = ("_at", "_on_text", "_pieces", "_said", "_silent")

    def __init__(self, on_text: OnText) -> None:
        self._on_text = on_text
        self._pieces: list[str] = []
        self._said = ""
        self._at = 0
        self._silent = False

    def rewind(self) -> None:
        """A new attempt begins."""
        self._said = "".join(self._pieces)
        self._at = 0

    def __call__(self, delta: str) -> None:
        """The next piece of this attempt's text."""
        if self._silent or not delta:
            return
        known = self._said[self._at : self._at + len(delta)]
        if not delta.startswith(known):
            self._silent = True
            return
        self._at += len(known)
        if fresh := delta[len(known) :]:
            self._pieces.append(fresh)
            self._on_text(fresh)


def quote(model: Model, input_tokens: int, output_tokens: int, tier: str = "") -> float | None:
    """US dollars for a call of this size in a service tier ("" = the usual one)."""
    priced = getattr(model, "price_at", None) if tier else None
    if priced is None:
        return model.price(input_tokens, output_tokens)
    found: float | None = priced(input_tokens, output_tokens, tier)
    return found


def _common(inputs: Sequence[tuple[str, ...]]) -> tuple[str, ...] | None:
    """What all of them take; None if nothing is known of any."""
    if not inputs:
        return None
    return tuple([kind for kind in inputs[0] if all(kind in others for others in inputs)])


class FallbackModel:
    """Asks `models` in order. A model that failed rests for `rest` seconds, so that a dead
    one does not delay every call; `Reply.model` says which one answered.

    Whoever answered last in a conversation is asked first: its reasoning and its cache are there.
    """

    def __init__(
        self,
        models: Sequence[Model],
        *,
        rest: float = _REST,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if not models:
            raise ConfigError("a fallback list needs at least one model")
        self._models = tuple(models)
        self._rest, self._clock = rest, clock
        self._until = [0.0] * len(self._models)
        self.name = " | ".join(model.name for model in self._models)
        profiles = [model.profile for model in self._models]
        self.profile = Profile(
            window=min(profile.window for profile in profiles),
            window_known=all(profile.window_known for profile in profiles),
            native_tools=all(profile.native_tools for profile in profiles),
            json_schema=all(profile.json_schema for profile in profiles),
            streaming=all(profile.streaming for profile in profiles),
            inputs=_common([one.inputs for one in profiles if one.inputs is not None]),
            thinking=max([one.thinking for one in profiles], key=get_args(Thinking).index),
            prefix_bound=any(profile.prefix_bound for profile in profiles),
        )

    async def complete(self, request: Request, on_text: OnText | None = None) -> Reply:
        """The reply of the first model that works.

        Raises `ModelError`: the last one's kind, everyone's reason.
        """
        speaker = Speaker(on_text) if on_text else None
        reasons: list[str] = []
        last = ModelError("nothing was asked")
        for index in self._order(request.conversation.issuer):
            model = self._models[index]
            if speaker:
                speaker.rewind()
            try:
                reply = await model.complete(request, speaker)
            except ModelError as error:
                if error.kind not in NEXT:
                    raise
                last = error
                reasons.append(f"{model.name}: {error}")
                self._until[index] = self._clock() + max(self._rest, error.retry_after or 0.0)
            else:
                self._until[index] = 0.0
                return reply
        raise ModelError(
            "no model of the fallback list works: " + "; ".join(reasons),
            kind=last.kind,
            status=last.status,
            retry_after=last.retry_after,
        ) from last

    def _order(self, last: Issuer | None) -> list[int]:
        now = self._clock()
        # A sort keeps the order of equals.
        every = sorted(
            range(len(self._models)),
            key=lambda i: last is None or getattr(self._models[i], "issuer", None) != last,
        )
        # Those that rest are still better than none.
        return [i for i in every if self._until[i] <= now] + [
            i for i in every if self._until[i] > now
        ]

    def price_at(self, input_tokens: int, output_tokens: int, tier: str) -> float | None:
        """The same in a service tier."""
        prices = [quote(model, input_tokens, output_tokens, tier) for model in self._models]
        known = [price for price in prices if price is not None]
        return max(known) if len(known) == len(prices) else None

    def price(self, input_tokens: int, output_tokens: int) -> float | None:
        """The dearest model's price; None if one of them is unknown."""
        prices = [model.price(input_tokens, output_tokens) for model in self._models]
        known = [price for price in prices if price is not None]
        return max(known) if len(known) == len(prices) else None
