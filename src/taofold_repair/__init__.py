"""`offline:repair`, a model that repairs failing tests without key or network.

Candidate edits come from documented templates (`templates.TEMPLATES`), one per turn. It is a search
policy, not a language model, and its answers state this.
"""

from taofold_repair.model import RepairModel, connect
from taofold_repair.search import NAME

__all__ = ["NAME", "RepairModel", "connect"]
