"""Runs a program of CrewAI with scripted replies instead of OpenAI's."""

import json
import sys
from pathlib import Path

import crewai
from crewai import BaseLLM

program, replies = Path(sys.argv[1]), iter(json.loads(sys.argv[2]))


class Scripted(BaseLLM):
    """An LLM without tool calls of its own, so that CrewAI reads its text."""

    def __init__(self, model, **options):
        assert model == "openai/gpt-5"
        super().__init__(model=model, **options)

    def call(self, messages, *arguments, **options):
        return next(replies)["text"]

    def supports_function_calling(self) -> bool:
        return False


crewai.LLM = Scripted
exec(compile(program.read_text("utf-8"), program.name, "exec"), {"__name__": "__main__"})
