"""Bookings of a meeting room, as (start, end) in hours; a booking ends before its end."""


def clashes(one, other):
    return one[0] <= other[1] and other[0] < one[1]


def free(bookings, wanted):
    return not any(clashes(booking, wanted) for booking in bookings)


def book(bookings, wanted):
    if wanted[0] >= wanted[1]:
        raise ValueError("a booking needs a duration")
    if not free(bookings, wanted):
        return bookings
    return sorted([*bookings, wanted])


def hours(bookings):
    return sum(end - start for start, end in bookings)
