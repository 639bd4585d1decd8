"""Players are drafted in turns."""


def order(teams, rounds):
    turns = []
    for number in range(rounds):
        turns += teams if number % 2 == 0 else teams[::-1]
    return turns


def strongest(players):
    return max(players, key=lambda player: (player[1], player[0]))


def draft(players, teams, rounds=1):
    free = players
    squads = {team: [] for team in teams}
    for team in order(teams, rounds):
        if not free:
            break
        pick = strongest(free)
        free.remove(pick)
        squads[team].append(pick[0])
    return squads


def strength(players, squad):
    known = dict(players)
    return sum(known.get(name, 0) for name in squad)


def balance(players, teams, rounds=1):
    squads = draft(players, teams, rounds)
    totals = [strength(players, squads[team]) for team in teams]
    return max(totals) - min(totals)
