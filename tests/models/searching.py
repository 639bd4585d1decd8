"""Strict fakes of providers that search tools: OpenAI's Responses and Anthropic's Messages.

Each is a `Transport`. It refuses what the provider is documented to refuse, loads tools into the
context as the provider does, and answers from a script: a text, a search of its own (`Search`) with
a call after it, or a call (`Call`). A call of a tool that is not loaded fails the test.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from taofold.models.transport import Body, Bounds, HttpResponse, OnBytes, whole


@dataclass
class Call:
    """A call of a function."""

    name: str
    arguments: dict[str, Any] = field(default_factory=dict[str, Any])


@dataclass
class Search:
    """A search of the provider that finds `names`."""

    names: tuple[str, ...]


@dataclass
class Down:
    """An error of the server."""

    status: int = 503
    message: str = "down"


Turn = str | Call | Search | Down


class Refusal(Exception):
    """The provider refuses the request."""


def check(condition: object, why: str) -> None:
    if not condition:
        raise Refusal(why)


class Searching:
    """Base of the fakes. `requests` holds the bodies, `loaded` the callable tools of each."""

    def __init__(self, *script: Turn | list[Turn]) -> None:
        self.script = list(script)
        self.requests: list[dict[str, Any]] = []
        self.refusals: list[str] = []
        self.supported = True

    async def post(
        self,
        url: str,
        headers: Mapping[str, str],
        body: Body,
        bounds: Bounds,
        on_bytes: OnBytes | None = None,
    ) -> HttpResponse:
        request = json.loads(whole(body))
        self.requests.append(request)
        request.pop("stream", None)
        try:
            callable_now = self.judge(request)
        except Refusal as refusal:
            self.refusals.append(str(refusal))
            return self.error(400, str(refusal))
        turn = self.script.pop(0)
        turns = turn if isinstance(turn, list) else [turn]
        if isinstance(turns[0], Down):
            return self.error(turns[0].status, turns[0].message)
        for each in turns:
            if isinstance(each, Search):
                callable_now |= set(each.names)
            if isinstance(each, Call):
                assert each.name in callable_now, (each.name, callable_now)
        return HttpResponse(200, {}, json.dumps(self.answer(request, turns)).encode())

    def error(self, status: int, message: str) -> HttpResponse:
        kind = "invalid_request_error" if status == 400 else "api_error"
        error = {"type": "error", "error": {"type": kind, "message": message}}
        return HttpResponse(status, {}, json.dumps(error).encode())

    def judge(self, request: dict[str, Any]) -> set[str]:
        """Returns the tools that the model may call now. Raises `Refusal`."""
        raise NotImplementedError

    def answer(self, request: dict[str, Any], turns: list[Turn]) -> dict[str, Any]:
        raise NotImplementedError

    @property
    def offers(self) -> list[str]:
        """The tools of each request as bytes: equal ones keep the cache."""
        return [json.dumps(request.get("tools")) for request in self.requests]


BM25 = "tool_search_tool_bm25"


class AnthropicFake(Searching):
    def judge(self, request: dict[str, Any]) -> set[str]:
        tools = request.get("tools", [])
        names = [tool["name"] for tool in tools]
        check(len(names) == len(set(names)), "tools: Tool names must be unique.")
        search = [tool for tool in tools if str(tool.get("type")).startswith("tool_search_tool")]
        later = {tool["name"] for tool in tools if tool.get("defer_loading")}
        if not self.supported:
            check(not search and not later, "tools.0: Input tag 'tool_search_tool_bm25_20251119'")
        for tool in search:
            check(tool["type"] == f"{BM25}_20251119", f"unknown type {tool['type']}")
            check(set(tool) == {"type", "name"}, "extra inputs are not permitted")
        for tool in tools:
            if tool not in search:
                keys = {"name", "description", "input_schema", "defer_loading"}
                check(set(tool) <= keys, f"tools: extra inputs {set(tool) - keys}")
        check(not tools or later < set(names), "At least one tool must have defer_loading=false.")
        loaded = {name for name in names if name not in later} - {tool["name"] for tool in search}
        open_calls: set[str] = set()
        role = ""
        for message in request["messages"]:
            check(message["role"] != role, "roles must alternate")
            role = message["role"]
            blocks = message["content"]
            results = {b["tool_use_id"] for b in blocks if b["type"] == "tool_result"}
            check(
                results == open_calls, f"tool_use ids {open_calls} need tool_result, not {results}"
            )
            searches: set[str] = set()
            open_calls = set()
            for block in blocks:
                match block["type"]:
                    case "tool_result" if isinstance(block["content"], list):
                        loaded |= self.refer(block["content"], names)
                    case "server_tool_use":
                        check(search, f"{block['name']} is not among the tools")
                        searches.add(block["id"])
                    case "tool_search_tool_result":
                        check(block["tool_use_id"] in searches, "no server_tool_use before it")
                        loaded |= self.refer(block["content"]["tool_references"], names)
                    case "tool_use":
                        open_calls.add(block["id"])
                    case _:
                        pass
        return loaded

    def refer(self, blocks: list[dict[str, Any]], names: list[str]) -> set[str]:
        found = {b["tool_name"] for b in blocks if b["type"] == "tool_reference"}
        for name in found:
            check(name in names, f"Tool reference '{name}' not found in available tools")
        return found

    def answer(self, request: dict[str, Any], turns: list[Turn]) -> dict[str, Any]:
        blocks: list[dict[str, Any]] = []
        number = len(self.requests)
        for at, turn in enumerate(turns):
            match turn:
                case str():
                    blocks.append({"type": "text", "text": turn})
                case Search():
                    key = f"srvtoolu_{number}_{at}"
                    use = {"type": "server_tool_use", "id": key, "name": BM25}
                    references = [{"type": "tool_reference", "tool_name": n} for n in turn.names]
                    found = {
                        "type": "tool_search_tool_search_result",
                        "tool_references": references,
                    }
                    blocks.append({**use, "input": {"query": "q"}})
                    blocks.append(
                        {"type": "tool_search_tool_result", "tool_use_id": key, "content": found}
                    )
                case Call():
                    key = f"toolu_{number}_{at}"
                    use = {"type": "tool_use", "id": key, "name": turn.name}
                    blocks.append({**use, "input": turn.arguments})
                case _:
                    raise AssertionError(turn)
        stop = "tool_use" if any(b["type"] == "tool_use" for b in blocks) else "end_turn"
        usage = {"input_tokens": 10, "output_tokens": 5}
        return {"type": "message", "content": blocks, "stop_reason": stop, "usage": usage}


class OpenAIFake(Searching):
    def judge(self, request: dict[str, Any]) -> set[str]:
        tools = request.get("tools", [])
        search = [tool for tool in tools if tool["type"] == "tool_search"]
        plain = [tool["name"] for tool in tools if tool["type"] == "function"]
        spaces = self.namespaces(tools)
        loaded = self.items(request["input"], search, plain, spaces)
        choice: Any = request.get("tool_choice")
        if choice and not isinstance(choice, str):
            for tool in choice["tools"]:
                check(tool["name"] in plain, f"Tool choice '{tool['name']}' not found in 'tools'")
        self.spaces = {name: space for space, inner in spaces.items() for name in inner}
        if search and search[0].get("execution") == "client":
            loaded.add("(search)")
        return loaded

    def namespaces(self, tools: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
        """Returns the deferred functions by namespace."""
        kinds = [tool["type"] for tool in tools]
        search = [tool for tool in tools if tool["type"] == "tool_search"]
        if not self.supported:
            check(set(kinds) <= {"function"}, "Tool 'tool_search' is not supported with this model")
        check(len(search) <= 1, "one tool_search")
        spaces: dict[str, dict[str, Any]] = {}
        plain = [tool["name"] for tool in tools if tool["type"] == "function"]
        for tool in tools:
            if tool["type"] == "function":
                keys = {"type", "name", "description", "parameters", "strict"}
                check(set(tool) == keys, f"function {set(tool)}")
            elif tool["type"] == "namespace":
                check(search, "defer_loading needs tool_search")
                check(set(tool) == {"type", "name", "description", "tools"}, "namespace")
                spaces[tool["name"]] = {inner["name"]: inner for inner in tool["tools"]}
                check(all(inner["defer_loading"] for inner in tool["tools"]), "is not deferred")
            else:
                check(tool["type"] == "tool_search", f"unknown type {tool['type']}")
                keys = {"type", "execution", "description", "parameters"}
                check(set(tool) in ({"type"}, keys), "tool_search")
        names = [*plain, *[name for space in spaces.values() for name in space]]
        check(len(names) == len(set(names)), "names must be unique")
        check(len(names) <= 128, f"Invalid 'tools': {len(names)} are more than 128")
        return spaces

    def items(
        self,
        items: list[dict[str, Any]],
        search: list[dict[str, Any]],
        plain: list[str],
        spaces: dict[str, dict[str, Any]],
    ) -> set[str]:
        """Returns the tools that are loaded after the items, which may add to `spaces`."""
        loaded = set(plain)
        open_calls: dict[str, str] = {}
        for item in items:
            kind = item.get("type", "message")
            if kind not in ("function_call", "function_call_output") and item.get("id"):
                raise Refusal(f"Item with id '{item['id']}' not found: store is false")
            match kind:
                case "tool_search_call":
                    client = item["execution"] == "client"
                    check(isinstance(item["arguments"], dict), "arguments of a search")
                    check(search, "tool_search is not among the tools")
                    check(client == (search[0].get("execution") == "client"), "execution differs")
                    if client:
                        open_calls[item["call_id"]] = "tool_search_output"
                case "tool_search_output":
                    if item["execution"] == "client":
                        check(open_calls.pop(item["call_id"], "") == kind, "no such search")
                    for tool in item["tools"]:
                        inner = tool["tools"] if tool["type"] == "namespace" else [tool]
                        space = tool["name"] if tool["type"] == "namespace" else ""
                        loaded |= {each["name"] for each in inner}
                        spaces.setdefault(space, {}).update({each["name"]: each for each in inner})
                case "function_call":
                    name, space = item["name"], item.get("namespace", "")
                    known = any(name in each for each in spaces.values())
                    if not space and known and name not in plain:
                        raise Refusal(
                            f"Missing namespace for function_call '{name}'. It does not exist in "
                            "the default namespace."
                        )
                    check(not space or name in spaces.get(space, {}), f"no {space}.{name}")
                    open_calls[item["call_id"]] = "function_call_output"
                case "function_call_output":
                    check(open_calls.pop(item["call_id"], "") == kind, "No tool call found")
                case _:
                    pass
        check(not open_calls, f"No tool output found for {open_calls}")
        return loaded

    def answer(self, request: dict[str, Any], turns: list[Turn]) -> dict[str, Any]:
        items: list[dict[str, Any]] = []
        number = len(self.requests)
        for at, turn in enumerate(turns):
            key = f"{number}_{at}"
            match turn:
                case str():
                    text: dict[str, Any] = {"type": "output_text", "text": turn, "annotations": []}
                    message = {"type": "message", "id": f"msg_{key}", "role": "assistant"}
                    items.append({**message, "status": "completed", "content": [text]})
                case Search():
                    ends = {"execution": "server", "call_id": None, "status": "completed"}
                    spaces: dict[str, list[Any]] = {}
                    for space in request["tools"]:
                        for tool in space.get("tools", ()):
                            if tool["name"] in turn.names:
                                spaces.setdefault(space["name"], []).append(tool)
                    found = [
                        {"type": "namespace", "name": n, "description": "d", "tools": tools}
                        for n, tools in spaces.items()
                    ]
                    call = {"type": "tool_search_call", "id": f"tsc_{key}"}
                    output = {"type": "tool_search_output", "id": f"tso_{key}"}
                    items.append({**call, **ends, "arguments": {"paths": list(spaces)}})
                    items.append({**output, **ends, "tools": found})
                case Call(name="(search)"):
                    call = {"type": "tool_search_call", "id": f"tsc_{key}", "status": "completed"}
                    call |= {"execution": "client", "call_id": f"call_{key}"}
                    items.append({**call, "arguments": turn.arguments})
                case Call():
                    call = {"type": "function_call", "id": f"fc_{key}", "call_id": f"call_{key}"}
                    space = self.spaces.get(turn.name)
                    call |= {"namespace": space} if space else {}
                    arguments = json.dumps(turn.arguments)
                    items.append({**call, "name": turn.name, "arguments": arguments})
                case _:
                    raise AssertionError(turn)
        usage = {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15}
        return {"id": "resp_1", "status": "completed", "output": items, "usage": usage}
