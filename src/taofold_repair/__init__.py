"""`offline:repair`, the model that needs neither key nor network, and repairs failing tests.

Candidate edits come from documented templates (`templates.TEMPLATES`), one per turn.
It is a search policy, not a language model, and says so.
"""

from taofold_repair.model import RepairModel, connect
from taofold_repair.search import NAME

__all__ = ["NAME", "RepairModel", "connect"]
