"""Templates and conditions in files: a sandboxed, bounded language over JSON values (D21).

`template` is text with expressions, `condition` a true or false expression, `bounds` their cost
limits.
"""
