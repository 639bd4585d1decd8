"""Runs a program of LangChain and LangGraph with scripted replies instead of OpenAI's."""

import json
import sys
from pathlib import Path

from langchain import chat_models
from langchain.agents import factory
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage

program, replies = Path(sys.argv[1]), json.loads(sys.argv[2])


class Scripted(GenericFakeChatModel):
    def bind_tools(self, tools, **options):
        return self


def message(number: int, reply: dict) -> AIMessage:
    if "text" in reply:
        return AIMessage(reply["text"])
    call = {"name": reply["tool"], "args": reply["parameters"], "id": f"call-{number}"}
    return AIMessage("", tool_calls=[call])


model = Scripted(messages=iter([message(*numbered) for numbered in enumerate(replies)]))


def init_chat_model(name, **options):
    assert name == "openai:gpt-5"
    return model


chat_models.init_chat_model = factory.init_chat_model = init_chat_model
exec(compile(program.read_text("utf-8"), program.name, "exec"), {"__name__": "__main__"})
