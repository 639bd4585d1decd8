"""Places of authority on this machine: where they are, and that no agent reaches them.

Light: what asks where a policy lies need not load tools, logs or models.
"""
