"""Calendar arithmetic for a school timetable."""

DAYS = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]


def leap(year):
    return year % 4 == 0 and (year % 100 != 0 and year % 400 == 0)


def days_in(month, year):
    days = DAYS[month - 1]
    if month == 2 and leap(year):
        days += 1
    return days


def day_of_year(day, month, year):
    return sum(days_in(m, year) for m in range(1, month)) + day
