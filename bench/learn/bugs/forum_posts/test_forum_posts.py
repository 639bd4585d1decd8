from forum_posts import depth, parent, quoted

POSTS = [
    {"id": 1, "text": "Hello\nall"},
    {"id": 2, "text": "Hi", "reply_to": 1},
    {"id": 3, "text": "Hey", "reply_to": 2},
]


def test_parent():
    assert parent(POSTS, POSTS[1]) is POSTS[0]


def test_quoted():
    assert quoted(POSTS, POSTS[1]) == "> Hello"


def test_nothing_to_quote():
    assert quoted(POSTS, POSTS[0]) is None


def test_depth():
    assert depth(POSTS, POSTS[2]) == 2
