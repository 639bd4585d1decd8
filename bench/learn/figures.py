"""From rows to a table: means, per-bug pairs, bootstrap intervals over bugs."""

import random
from collections import defaultdict
from typing import Any

DRAWS = 2000
TITLES = {
    "learning": "learning from other bugs in the stream",
    "tolerant": "the same, min_success_rate 0.2 instead of 0.6",
    "poisoned": "the same, 60 % of the stored fixes corrupted",
    "junk": "a registry of wrong fixes only",
    "disjoint": "learnt on other families only",
    "forged": "wrong fixes imported, claiming 50 of 50",
    "shuffled": "ablation: fixes shuffled between patterns",
    "readers": "ablation: the readers' section alone",
}


def table(seeds: list[dict[str, Any]], budget: int, seconds: float) -> str:
    lines = [
        f"{seeds[0]['bugs']} bugs, {len(seeds)} seeds, budget {budget}, "
        f"{sum(one['pytest_runs'] for one in seeds)} real pytest runs, {seconds:.0f} s", "",
        "| condition | scored | n | without | with | saved | 95 % | better/same/worse | solved |",
        "|---|---|---|---|---|---|---|---|---|",
    ]  # fmt: skip
    for name, title in TITLES.items():
        rows = _rows(seeds, name)
        if rows:
            lines.append(_line(title, "second half", [r for r in rows if r["late"]]))
            lines.append(_line("", "all", rows))
    lines += ["", *_forged(seeds), *_control(seeds), *_families(seeds)]
    return "\n".join(lines)


def _rows(seeds: list[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for one in seeds:
        rows = one["conditions"].get(name, [])
        half = len(rows) // 2
        found += [{**row, "late": row["place"] >= half, "seed": one["seed"]} for row in rows]
    return found


def saved(rows: list[dict[str, Any]]) -> float:
    without = sum(row["without"] for row in rows)
    return 100 * (1 - sum(row["tried"] for row in rows) / without) if without else 0.0


def interval(rows: list[dict[str, Any]]) -> tuple[float, float]:
    """Bootstrap over bugs: the seeds of one bug belong together."""
    groups: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        groups[row["bug"]].append(row)
    names, chance = sorted(groups), random.Random(0)
    drawn = sorted(
        saved([row for name in chance.choices(names, k=len(names)) for row in groups[name]])
        for _ in range(DRAWS)
    )
    return drawn[int(0.025 * DRAWS)], drawn[int(0.975 * DRAWS)]


def brief(rows: Any) -> str:
    """Returns one condition's summary for progress output."""
    if not isinstance(rows, list) or not rows:
        return "done"
    late = [row for row in rows if row["place"] >= len(rows) // 2]
    return f"saved {saved(rows):.0f} %, in the second half {saved(late):.0f} %"


def _line(title: str, scored: str, rows: list[dict[str, Any]]) -> str:
    n = max(len(rows), 1)
    low, high = interval(rows)
    better = sum(row["tried"] < row["without"] for row in rows)
    worse = sum(row["tried"] > row["without"] for row in rows)
    return (
        f"| {title} | {scored} | {len(rows)} | {sum(r['without'] for r in rows) / n:.1f} "
        f"| {sum(r['tried'] for r in rows) / n:.1f} | {saved(rows):.0f} % "
        f"| {low:.0f} to {high:.0f} % | {better}/{len(rows) - better - worse}/{worse} "
        f"| {sum(r['solved_without'] for r in rows)} → {sum(r['solved'] for r in rows)} |"
    )


def _forged(seeds: list[dict[str, Any]]) -> list[str]:
    """Returns the cost of forged counts beside the same stream without them, first and later."""
    pairs = []
    for one in seeds:
        plain = {row["bug"]: row["tried"] for row in one["conditions"].get("learning", [])}
        for row in one["conditions"].get("forged", []):
            if row["bug"] in plain:
                pairs.append((row["place"], row["tried"] - plain[row["bug"]]))
    if not pairs:
        return []
    early = [cost for place, cost in pairs if place < 10]
    late = [cost for place, cost in pairs if place >= 10]
    return [
        f"Forged counts cost {_mean([c for _, c in pairs]):+.2f} iterations per bug: "
        f"{_mean(early):+.2f} in the first 10 loops, {_mean(late):+.2f} after.", "",
    ]  # fmt: skip


def _control(seeds: list[dict[str, Any]]) -> list[str]:
    lines = []
    for one in seeds:
        found = one["conditions"].get("control")
        if not found or found["true"] is None:
            continue
        said = found["reported"]
        low, high = said["improvement_interval_95"] or (None, None)
        held = "no interval" if low is None else f"{low:.0f} to {high:.0f} %"
        inside = low is not None and low <= found["true"] <= high
        lines.append(
            f"Benefit reported from the control share, seed {one['seed']}: "
            f"{said['improvement_percentage']} % ({held}; "
            f"{said['loops_with_pattern_injection']} with, "
            f"{said['loops_without_pattern_injection']} without); true, from the pairs: "
            f"{found['true']:.0f} %{'' if inside else ' (outside)'}."
        )
    return [*lines, ""] if lines else []


def _families(seeds: list[dict[str, Any]]) -> list[str]:
    rows = [row for row in _rows(seeds, "learning") if row["late"] and row["family"]]
    names = sorted({row["family"] for row in rows})
    if len(names) < 2:
        return []
    lines = ["| family (learning, second half) | n | without | with |", "|---|---|---|---|"]
    for name in names:
        mine = [row for row in rows if row["family"] == name]
        lines.append(
            f"| {name} | {len(mine)} | {_mean([r['without'] for r in mine]):.1f} "
            f"| {_mean([r['tried'] for r in mine]):.1f} |"
        )
    return lines


def _mean(values: list[float]) -> float:
    return sum(values) / len(values) if values else 0.0
