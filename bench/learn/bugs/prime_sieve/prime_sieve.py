"""Small number theory for a puzzle page."""


def is_prime(number):
    if number < 2:
        return False
    divisor = 2
    while divisor * divisor <= number:
        if number % divisor == 0:
            return False
        divisor += 1
    return True


def primes_up_to(limit):
    found = []
    for number in range(2, limit):
        if is_prime(number):
            found.append(number)
    return found


def gaps(limit):
    primes = primes_up_to(limit)
    return [b - a for a, b in zip(primes, primes[1:])]
