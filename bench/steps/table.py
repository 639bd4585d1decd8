"""Figures as Markdown tables: medians, ratios, and the target beside each."""

from statistics import median


def ratio(ours, floor):
    """The median of the rounds' ratios: each compares neighbours in time."""
    return median(a / b for a, b in zip(ours, floor, strict=True))


def spread(values):
    """Returns the relative difference of the largest and the smallest: 0 = flat."""
    return max(values) / min(values) - 1


def verdict(value, bound):
    """Met, or by how much it is missed."""
    return "met" if value <= bound else f"missed by {value / bound - 1:.0%}"


def grid(head, rows):
    """A Markdown table in aligned columns."""
    rows = [tuple(head), *rows]
    widths = [max(len(row[i]) for row in rows) for i in range(len(head))]
    lines = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |"
        for row in rows
    ]
    return "\n".join([lines[0], "|" + "|".join("-" * (w + 2) for w in widths) + "|", *lines[1:]])
