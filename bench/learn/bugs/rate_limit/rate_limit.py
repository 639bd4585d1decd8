"""A sliding window that limits calls."""


class Window:
    def __init__(self, most, seconds):
        self.most = most
        self.seconds = seconds
        self.calls = []

    def _forget(self, now):
        self.calls = [at for at in self.calls if now - at < self.seconds]

    def allow(self, now):
        self._forget(now)
        if len(self.calls) <= self.most:
            self.calls.append(now)
            return True
        return False

    def left(self, now):
        self._forget(now)
        return self.most - len(self.calls)
