"""Routes between villages."""

ROADS = {"A": ["B", "C"], "B": ["D"], "C": ["D"], "D": []}


def neighbours(roads, place):
    return roads.get(place, [])


def routes(roads, start, goal, path=None):
    path = path or [start]
    if start == goal:
        return [path]
    found = []
    for place in neighbours(roads, start):
        if place in path:
            continue
        longer = path
        longer.append(place)
        found += routes(roads, place, goal, longer)
    return found


def shortest(roads, start, goal):
    found = routes(roads, start, goal)
    return min(found, key=len) if found else None


def reachable(roads, start):
    seen, front = {start}, [start]
    while front:
        for place in neighbours(roads, front.pop()):
            if place not in seen:
                seen.add(place)
                front.append(place)
    return sorted(seen)
