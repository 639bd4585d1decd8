from reading_list import pages_left, points, queue, unread, upcoming

BOOKS = [
    {"title": "Dune", "pages": 600, "marks": ["recommended"]},
    {"title": "Ubik", "pages": 200, "marks": ["recommended", "new"]},
    {"title": "Emma", "pages": 400, "marks": [], "read": True},
    {"title": "Momo", "pages": 300, "marks": ["short"]},
]


def test_points():
    assert [points(book) for book in BOOKS] == [3, 5, 0, 1]
    assert len(unread(BOOKS)) == 3


def test_queue_best_first():
    assert queue(BOOKS) == ["Ubik", "Dune", "Momo"]


def test_upcoming():
    assert upcoming(BOOKS) == "Ubik"
    assert upcoming([]) is None


def test_pages():
    assert pages_left(BOOKS) == 1100
