"""What commands show: `text` made safe and tables of it, one line for each of a run's `events`, and
the `story` of a run in steps, in a pipe (`plain`) or in colour (`terminal`).
"""
