"""The last values of a measurement."""


class Ring:
    def __init__(self, size):
        self.size = size
        self.values = []
        self.seen = 0

    def add(self, value):
        self.seen += 1
        self.values.append(value)
        if len(self.values) > self.size:
            self.values.pop(0)

    def latest(self, back=1):
        if back > len(self.values):
            raise IndexError(back)
        return self.values[-back - 1]

    def change(self):
        return self.latest(1) - self.latest(2)

    def mean(self):
        return sum(self.values) / len(self.values)

    def lost(self):
        return max(self.seen - self.size, 0)
