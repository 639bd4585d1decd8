"""Examples at the end of `--help`, one text for each command that has some.

Lines that begin with two spaces are commands. Each fits into 80 columns and is parsed by a test.
The texts begin with a line break, because Typer would otherwise remove the indentation.
"""

from typing import Final

PROGRAM: Final = """
Start here:
  taofold init                     # write an example agent
  taofold demo                     # watch two loops, no key needed
  taofold doctor                   # show what is configured

Exit codes: 0 success, 1 goal not reached, 2 usage or configuration error, \
3 waiting for an approval or answer, 130 interrupted."""
RUN: Final = """
Examples:
  taofold run agent.yaml "hello" --model test:tools      # no key, no network
  taofold run "make the tests pass" --model openai:gpt-5
  taofold run agent.yaml - --json < goal.txt > result.json"""
LOOP: Final = """
Examples:
  taofold loop "make the tests pass" --completion "python -m pytest -q"
  taofold loop "fix the warnings" -c "ruff check ." --model ollama:qwen3
  taofold loop "add a --json option" -c "make test" --agent claude --worktree"""
EVAL: Final = """
Examples:
  taofold eval cases.yaml --agent agent.yaml
  taofold eval cases.yaml --agent new.yaml --against old.yaml --repeat 3
  taofold eval --from-rated > cases.yaml               # cases from rated runs"""
SERVE: Final = """
Examples:
  taofold serve agent.yaml --open          # this machine only
  taofold serve agent.yaml --host 0.0.0.0 --allow-host agents.example
  taofold serve agent.yaml --mcp           # an MCP server on stdio"""
CHECK: Final = """
Examples:
  taofold check agent.yaml policy.yaml
  taofold check agent.yaml --import                    # import its tools, too
  taofold check --schema > agent.schema.json"""
INIT: Final = """
Examples:
  taofold init
  taofold run agent.yaml "hello" --model test:tools    # no key, no network
  taofold run agent.yaml "hello" --model openai:gpt-5"""
