"""How long a boat can wait for the tide. Heights in decimetres, times in minutes."""

STEP = 30


def height(table, minute):
    before = max(at for at in table if at <= minute)
    later = [at for at in table if at > minute]
    if not later:
        return table[before]
    after = min(later)
    share = (minute - before) / (after - before)
    return table[before] + share * (table[after] - table[before])


def clearance(table, minute, draught):
    return draught - height(table, minute)


def deep_enough(table, minute, draught, reserve=3):
    return clearance(table, minute, draught) >= reserve


def wait(table, minute, draught, most=720):
    waited = 0
    while waited < most and not deep_enough(table, minute + waited, draught):
        waited += STEP
    return waited
