"""Templates and conditions in files: a sandboxed, bounded language over JSON values (D21).

`template` is text with expressions in it, `condition` a yes or no, `bounds` what either may cost.
"""
