"""Reads and writes patterns as exchange files."""
