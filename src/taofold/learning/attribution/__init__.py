"""What became of patterns and of edits in a loop that has ended: who gets which due."""
