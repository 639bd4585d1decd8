"""Templates and conditions in files: a sandboxed, bounded language over JSON values (D21)."""
