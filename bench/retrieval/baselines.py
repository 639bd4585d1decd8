"""Baselines for the registry's search: plain BM25, and TF-IDF with the cosine."""

import re
from collections import Counter, defaultdict
from math import log, sqrt


def plain(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


class Bm25:
    """Okapi BM25 with its usual constants."""

    def __init__(self, texts: list[str], k1: float = 1.2, b: float = 0.75) -> None:
        docs = [Counter(plain(text)) for text in texts]
        lengths = [doc.total() for doc in docs]
        average = sum(lengths) / len(docs)
        self.n = len(docs)
        self.posts: dict[str, list[tuple[int, float]]] = defaultdict(list)
        for number, doc in enumerate(docs):
            damp = k1 * (1 - b + b * lengths[number] / average)
            for word, count in doc.items():
                self.posts[word].append((number, count * (k1 + 1) / (count + damp)))

    def __call__(self, text: str) -> list[int]:
        scores: dict[int, float] = defaultdict(float)
        for word in {*plain(text)}:
            posts = self.posts.get(word, [])
            weight = log(1 + (self.n - len(posts) + 0.5) / (len(posts) + 0.5))
            for number, value in posts:
                scores[number] += weight * value
        return sorted(scores, key=lambda number: -scores[number])


class Tfidf:
    """Cosine of TF-IDF vectors."""

    def __init__(self, texts: list[str]) -> None:
        docs = [Counter(plain(text)) for text in texts]
        seen = Counter(word for doc in docs for word in doc)
        self.idf = {word: log((1 + len(docs)) / (1 + n)) + 1 for word, n in seen.items()}
        self.posts: dict[str, list[tuple[int, float]]] = defaultdict(list)
        for number, doc in enumerate(docs):
            norm = sqrt(sum((n * self.idf[word]) ** 2 for word, n in doc.items())) or 1.0
            for word, count in doc.items():
                self.posts[word].append((number, count * self.idf[word] / norm))

    def __call__(self, text: str) -> list[int]:
        scores: dict[int, float] = defaultdict(float)
        for word, count in Counter(plain(text)).items():
            for number, value in self.posts.get(word, []):
                scores[number] += value * count * self.idf[word]
        return sorted(scores, key=lambda number: -scores[number])
