"""The prompts of a stored run, exactly as they were sent: its agent is driven once more, offline.

A log holds the digest of each prompt and everything it was made of, but not the prompt. What an
agent makes of the log today is the prompt that was sent if the digests agree; no other is used.
"""

import contextlib
from typing import Any

from taofold.agent import Agent
from taofold.core.errors import TaofoldError
from taofold.log.log import Log, WrappedLog
from taofold.runtime.model import Request
from taofold.telemetry.prompt import EncodedMessages, Prompt, prompt_of


class _Listening(WrappedLog):
    def __init__(self, log: Log) -> None:
        super().__init__(log)
        self.prompts: dict[str, Prompt] = {}
        self._transcript = EncodedMessages(())

    def on_request(self, run: str, key: str, request: Any) -> None:
        asked: Request = request
        if self._transcript.messages is not asked.conversation:
            self._transcript = EncodedMessages(asked.conversation)
        self.prompts[asked.conversation.digest] = prompt_of(asked, self._transcript)


async def prompts_of(agent: Agent[Any, Any], log: Log, run: str) -> dict[str, Prompt]:
    """The prompts of `run` by their digest; fewer, perhaps none, where the agent has changed.

    Asks no model and writes nothing.
    """
    listening = _Listening(log)
    with contextlib.suppress(TaofoldError):
        await agent.but(log=listening).replay(run)
    return listening.prompts
