"""`STEPS` turns of a graph with a PostgresSaver: run by cost.py in an environment of its own."""

import json
import resource
import sys
import time
from typing import Annotated, Any, TypedDict

from langchain_core.messages import AIMessage, ToolMessage
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages


class State(TypedDict):
    messages: Annotated[list[Any], add_messages]


def main(url: str, steps: int, text: str, runs: int) -> None:
    def model(state: State) -> dict[str, Any]:
        turn = sum(isinstance(message, AIMessage) for message in state["messages"])
        call = {"name": "look", "args": {"at": turn}, "id": f"c{turn}"}
        done = turn >= steps
        return {
            "messages": [AIMessage("done" if done else "on", tool_calls=[] if done else [call])]
        }

    def tools(state: State) -> dict[str, Any]:
        call = state["messages"][-1].tool_calls[0]
        return {"messages": [ToolMessage(text + str(call["args"]["at"]), tool_call_id=call["id"])]}

    def more(state: State) -> str:
        return "tools" if state["messages"][-1].tool_calls else END

    graph = StateGraph(State)
    graph.add_node("model", model)
    graph.add_node("tools", tools)
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", more)
    graph.add_edge("tools", "model")
    with PostgresSaver.from_conn_string(url) as saver:
        saver.setup()
        compiled = graph.compile(checkpointer=saver)
        print(json.dumps({"ready": True}), flush=True)
        sys.stdin.readline()
        used, began = resource.getrusage(resource.RUSAGE_SELF), time.monotonic()
        for number in range(runs):
            options: Any = {
                "configurable": {"thread_id": f"t{number}"},
                "recursion_limit": 3 * steps,
            }
            found = compiled.invoke({"messages": [("user", "go")]}, options)
            assert len(found["messages"]) == 2 * steps + 2
        now = resource.getrusage(resource.RUSAGE_SELF)
        cpu = now.ru_utime + now.ru_stime - used.ru_utime - used.ru_stime
        print(json.dumps({"cpu_s": cpu, "seconds": time.monotonic() - began}), flush=True)


main(sys.argv[1], int(sys.argv[2]), "x" * int(sys.argv[3]), int(sys.argv[4]))
