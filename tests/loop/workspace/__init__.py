"""Worktrees, copies, snapshots and commits of loops."""
