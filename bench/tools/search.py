"""Measures the search of tools over the tools of real MCP servers.

    python bench/tools/search.py FOLDER

FOLDER has a JSON file for each server: a list of tools with `name`, `description` and
`inputSchema`, as `tools/list` returns them, or one such tool. It prints the size of a first request
with and without the search, and for 40 tasks the rank of the expected tool. The tasks are written
in the words of a user and name tools of the servers of GitHub, Notion, Playwright and the file
system; tasks whose tool is missing in FOLDER are left out. Some tasks have a second search.
"""

import json
import sys
from pathlib import Path
from time import perf_counter
from typing import Any, cast

from taofold import Agent, Toolset
from taofold.reasoning.task import CHARS_PER_TOKEN
from taofold.testing import ScriptedModel
from taofold.tools.search import FOUND, ToolIndex
from taofold.tools.tool import Tool, external

TASKS = {
    "open a pull request": "create_pull_request",
    "merge a pull request": "merge_pull_request",
    "which branches does the repository have": "list_branches",
    "make a new branch": "create_branch",
    "see who last changed each line of a file": "get_file_blame",
    "read a file in a repository": "get_file_contents",
    "copy a repository into my account": "fork_repository",
    "find code that uses a function": "search_code",
    "find users by name": "search_users",
    "show the log of a failed job": "get_job_logs",
    "start a workflow": "actions_run_trigger",
    "list security alerts of dependencies": "list_dependabot_alerts",
    "leaked secrets in the code": "list_secret_scanning_alerts",
    "the newest release": "get_latest_release",
    "give a repository a star": "star_repository",
    "comment on an issue": "add_issue_comment",
    "mark all my notifications as read": "mark_all_notifications_read",
    "ask people to review the pull request": "request_pull_request_reviewers",
    "delete a file from the repository": "delete_file",
    "commit several files at once": "push_files",
    "who am I logged in as": "get_me",
    "people of a team": "get_team_members",
    "create a gist": "create_gist",
    "discussions of a repository": "list_discussions",
    "change the title of an issue": "update_issue_title",
    "search commits by message": "search_commits",
    "tags of a repository": "list_tags",
    "add a sub issue": "add_sub_issue",
    "who can push to the repository": "list_repository_collaborators",
    "assign copilot to an issue": "assign_copilot_to_issue",
    "take a screenshot of the page": "browser_take_screenshot",
    "click a button on the page": "browser_click",
    "open a web address in the browser": "browser_navigate",
    "type text into a field": "browser_type",
    "choose an option of a dropdown": "browser_select_option",
    "move or rename a file on disk": "move_file",
    "make a folder": "create_directory",
    "write text to a file": "write_file",
    "add a comment to a Notion page": "API-create-a-comment",
    "search pages by title in Notion": "API-post-search",
}

AGAIN = {
    "open a pull request": "create pull request",
    "read a file in a repository": "get file contents",
    "who am I logged in as": "get authenticated user",
    "make a folder": "create directory",
}
"""The second search of a task, in the verbs that the description of the tool advises."""


def read(folder: Path) -> list[Tool]:
    """Returns the tools of the folder; the name of a file is the toolset."""
    tools: dict[str, Tool] = {}
    for path in sorted(folder.iterdir()):
        value: Any = json.loads(path.read_text())
        listed = cast("list[dict[str, Any]]", value if isinstance(value, list) else [value])
        for each in listed:
            group = path.stem if isinstance(value, list) else "github"
            name = each.get("name") or path.stem
            schema = each.get("inputSchema") or {"type": "object"}
            tools.setdefault(
                name,
                external(name, each.get("description") or "", schema, dict, toolset=group),
            )
    return list(tools.values())


def tokens(tools: list[Tool], *, search: bool) -> float:
    """Returns the approximate tokens of the tools in the first request of a run."""
    agent = Agent(ScriptedModel([]), tools=[Toolset(tools)], tool_search=search)
    offers = [offer for offer in agent.offers if not offer.deferred]
    return sum(len(o.description) + len(json.dumps(o.schema)) for o in offers) / CHARS_PER_TOKEN


def main() -> None:
    """Prints the figures."""
    tools = read(Path(sys.argv[1]))
    started = perf_counter()
    index = ToolIndex(tools)
    built = perf_counter() - started
    print(f"{len(tools)} tools of {len({t.toolset for t in tools})} servers")
    whole, first_offer = tokens(tools, search=False), tokens(tools, search=True)
    print(f"first request: all {whole:,.0f} tokens, with search {first_offer:,.0f}")
    known = {tool.name for tool in tools}
    ranks: list[int] = []
    started = perf_counter()
    for task, wanted in TASKS.items():
        if wanted not in known:
            print(f"  left out: {wanted}")
            continue
        found = index.find(task)
        rank = found.index(wanted) + 1 if wanted in found else 0
        ranks.append(rank)
        if rank != 1:
            print(f"  {task!r}: {wanted} is {rank or 'not found'}; first {found[:3]}")
    took = (perf_counter() - started) / len(ranks)
    hits = sum(rank > 0 for rank in ranks)
    first = sum(rank == 1 for rank in ranks)
    print(f"{hits} of {len(ranks)} among the first {FOUND}, {first} first")
    again = sum(TASKS[task] in index.find(words) for task, words in AGAIN.items())
    print(f"second search: {again} of {len(AGAIN)}")
    print(f"index {built * 1e3:.1f} ms, a search {took * 1e6:.0f} us")


if __name__ == "__main__":
    main()
