"""Positions from a ship's log."""


def parse(line):
    parts = line.split(";")
    if len(parts) != 3:
        return None
    time, latitude, longitude = parts
    return time.strip(), float(latitude), float(longitude)


def latitude(line):
    entry = parse(line)
    return round(entry[1], 1)


def northernmost(lines):
    known = [entry for entry in map(parse, lines) if entry]
    return max(known, key=lambda entry: entry[1])[0]
