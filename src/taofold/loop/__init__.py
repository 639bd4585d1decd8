"""Loops: an agent is run again and again until commands prove that the work is done."""
