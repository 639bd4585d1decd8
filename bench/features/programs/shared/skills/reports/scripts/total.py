"""Prints the sum of its arguments."""

import sys

print("total", sum(float(value) for value in sys.argv[1:]))
