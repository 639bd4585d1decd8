from news_feed import digest, merge, newest, per_feed, unique

FEEDS = {"a": [(3, "Rain"), (9, "Sun")], "b": [(5, "rain"), (7, "Wind")]}


def test_merge():
    assert len(merge(FEEDS)) == 4
    assert len(unique(merge(FEEDS))) == 3


def test_newest_first():
    assert newest(FEEDS) == ["Sun", "Wind", "Rain"]
    assert newest(FEEDS, 1) == ["Sun"]


def test_digest():
    assert digest(FEEDS, 2) == "Sun; Wind"


def test_per_feed():
    assert per_feed(FEEDS) == {"a": 2, "b": 2}
