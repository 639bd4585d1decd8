"""Who may open which door."""

NIGHT = range(0, 6)


class Badge:
    def __init__(self, owner, staff=False, guest_of=None):
        self.owner = owner
        self.staff = staff
        self.guest_of = guest_of


def may_enter(badge, hour):
    if badge.staff:
        return True
    return badge.guest_of is not None or hour not in NIGHT


def log_line(badge, hour):
    verdict = "opened" if may_enter(badge, hour) else "refused"
    return f"{hour:02}h {badge.owner}: {verdict}"
