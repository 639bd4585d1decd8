"""Bids of a silent auction."""


class Auction:
    def __init__(self, reserve=0):
        self.reserve = reserve
        self.bids = []

    def bid(self, who, amount):
        if amount <= 0:
            raise ValueError("a bid is more than nothing")
        self.bids.append((who, amount, len(self.bids)))

    def valid(self):
        return [bid for bid in self.bids if bid[1] >= self.reserve]

    def ranked(self):
        return sorted(self.valid(), key=lambda bid: (bid[1], bid[2]))

    def winner(self):
        ranked = self.ranked()
        return ranked[0][0] if ranked else None

    def price(self):
        ranked = self.ranked()
        if not ranked:
            return None
        return ranked[1][1] if len(ranked) > 1 else self.reserve
