"""The largest directories of a file list."""


def folder(path):
    return path.rpartition("/")[0] or "."


def sizes(files):
    totals = {}
    for path, size in files:
        name = folder(path)
        totals[name] = totals.get(name, 0) + size
    return totals


def human(size):
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}"
        size /= 1000
    return f"{size:.1f} GB"


def largest(files, most=2):
    totals = sizes(files)
    names = sorted(totals, key=lambda name: totals[name])
    return names[:most]


def report(files, most=2):
    totals = sizes(files)
    return [f"{name} {human(totals[name])}" for name in largest(files, most)]
