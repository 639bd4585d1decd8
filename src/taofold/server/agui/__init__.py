"""AG-UI 1.0: runs as conversations of a client that speaks that protocol.

`endpoint` is its one route, `projection` projects records to the protocol's events, which
`translation` makes.
"""
