"""Evidence: hash chains over records, and signed heads.

`canonical` writes JSON in one form, `chain` links records and checks links. Knows nothing about
databases, agents or the command line.
"""
