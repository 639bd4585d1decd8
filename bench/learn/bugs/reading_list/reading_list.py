"""What to read next."""

WEIGHTS = {"recommended": 3, "new": 2, "short": 1}


def points(book):
    total = 0
    for mark in book["marks"]:
        total += WEIGHTS.get(mark, 0)
    return total


def unread(books):
    return [book for book in books if not book.get("read")]


def queue(books):
    waiting = sorted(unread(books), key=lambda book: (points(book), book["pages"]))
    return [book["title"] for book in waiting]


def upcoming(books):
    waiting = queue(books)
    return waiting[0] if waiting else None


def pages_left(books):
    return sum(book["pages"] for book in unread(books))
