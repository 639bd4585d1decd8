"""Derives lessons from the history of a finished loop. Pure rules over values."""
