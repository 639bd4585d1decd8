"""Threads of a forum."""


def by_id(posts):
    return {post["id"]: post for post in posts}


def parent(posts, post):
    return by_id(posts).get(post.get("reply_to"))


def quoted(posts, post):
    above = parent(posts, post)
    first = above["text"].split("\n")[0]
    return f"> {first}"


def depth(posts, post):
    level = 0
    above = parent(posts, post)
    while above is not None:
        level += 1
        above = parent(posts, above)
    return level
