"""Flows: agents whose strategy is a graph of nodes. Knows nothing about what actions do."""
