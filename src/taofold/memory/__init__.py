"""Memory: a notebook of short entries for each principal and agent, which later runs read.

`entries` has the values and their fold, `notebook` the storage and the search, `origin` finds out
which texts shaped a note, `digest` writes the section of a prompt, and `offer` makes the
tools. Knows nothing about agents. Conversations are sessions (`agent.sessions`), and the flow
actions `memory.store` and `memory.recall` keep values of one run.
"""

from taofold.memory.entries import NotebookEntry, NotebookOwner, NotebookPage
from taofold.memory.notebook import LogNotebooks, NotebookStore
from taofold.memory.offer import Memory, RunNotebook, memory_tools

__all__ = [
    "LogNotebooks",
    "Memory",
    "NotebookEntry",
    "NotebookOwner",
    "NotebookPage",
    "NotebookStore",
    "RunNotebook",
    "memory_tools",
]
