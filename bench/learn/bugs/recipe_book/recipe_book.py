"""A recipe book with nested entries."""

BOOK = {
    "soup": {"serves": 4, "source": {"author": "Rosa", "year": 1987}},
    "bread": {"serves": 8},
}


def recipe(name):
    return BOOK.get(name.lower())


def source(name):
    entry = recipe(name)
    if entry is None:
        return None
    return entry.get("source")


def author(name):
    found = source(name)
    return found["author"].upper()


def scaled(name, people):
    entry = recipe(name)
    return people / entry["serves"] if entry else 0
