"""Instructions of an agent: a text, or a function that writes the text of one run.

The function is called once, before the run begins, and its text is recorded with the run. Resume,
replay and fork read the recorded text. Knows nothing about prompts.
"""

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

from taofold.core.errors import ConfigError
from taofold.core.text import error_text, utf8
from taofold.foreign_code import contained, in_own_task, original
from taofold.tools.context import Deps, RunContext
from taofold.tools.threads import WORKERS

Instructions: TypeAlias = str | Callable[[RunContext[Deps]], str | Awaitable[str]]


async def instructions_text(
    instructions: Instructions[Any], context: RunContext[Any], seconds: float | None = None
) -> str:
    """Returns the instructions of the run that `context` describes.

    Args:
        instructions: A text, or a function of the context. A function that is not `async` is called
            in a thread.
        context: Dependencies, goal, principal, data and id of the run.
        seconds: Time limit of the function; None: unbounded.

    Raises:
        ConfigError: The function raised something, returned no text, or took longer than `seconds`.
    """
    if isinstance(instructions, str):
        return utf8(instructions)
    timer = asyncio.timeout(seconds)
    try:
        with contained():
            async with timer:
                text = await _called(instructions, context)
    except Exception as error:
        late = isinstance(error, TimeoutError) and timer.expired()
        why = f"took longer than {seconds} s" if late else f"raised {error_text(original(error))}"
        raise ConfigError(f"the function {why}", path="instructions") from error
    if not isinstance(text, str):
        raise ConfigError(f"the function returned {text!r}, not a text", path="instructions")
    return utf8(text)


async def _called(function: Callable[[RunContext[Any]], Any], context: RunContext[Any]) -> object:
    blocking = not inspect.iscoroutinefunction(function)
    value = await WORKERS.run(function, context) if blocking else function(context)
    return await in_own_task(value) if inspect.isawaitable(value) else value
