"""Patients who wait; urgency 1 is the most urgent."""


class Queue:
    def __init__(self):
        self.waiting = []
        self.number = 0

    def add(self, name, urgency=3):
        if not 1 <= urgency <= 5:
            raise ValueError(urgency)
        self.number += 1
        self.waiting.append((urgency, self.number, name))

    def following(self):
        return max(self.waiting) if self.waiting else None

    def call(self):
        entry = self.following()
        if entry is None:
            return None
        self.waiting.remove(entry)
        return entry[2]

    def position(self, name):
        order = sorted(self.waiting)
        return [entry[2] for entry in order].index(name) + 1

    def minutes(self, name, each=10):
        return (self.position(name) - 1) * each
