"""Entries of several news feeds, merged."""


def merge(feeds):
    entries = []
    for name, items in feeds.items():
        for at, title in items:
            entries.append({"feed": name, "at": at, "title": title})
    return entries


def unique(entries):
    seen, kept = set(), []
    for entry in entries:
        key = entry["title"].casefold()
        if key not in seen:
            seen.add(key)
            kept.append(entry)
    return kept


def newest(feeds, most=3):
    entries = sorted(unique(merge(feeds)), key=lambda entry: entry["at"])
    return [entry["title"] for entry in entries[:most]]


def digest(feeds, most=3):
    return "; ".join(newest(feeds, most))


def per_feed(feeds):
    return {name: len(items) for name, items in feeds.items()}
