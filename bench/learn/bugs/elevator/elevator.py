"""Load control of an elevator."""

LIMIT = 630
PERSON = 75


def load(people, goods=0):
    return people * PERSON + goods


def may_start(people, goods=0):
    total = load(people, goods)
    if people < 0 or goods < 0:
        return False
    return total < LIMIT


def board(waiting, goods=0):
    entered = 0
    while entered < waiting and may_start(entered + 1, goods):
        entered += 1
    return entered
