from prime_sieve import gaps, is_prime, primes_up_to


def test_is_prime():
    assert is_prime(2)
    assert is_prime(49) is False


def test_limit_counts():
    assert primes_up_to(7) == [2, 3, 5, 7]
    assert primes_up_to(2) == [2]


def test_gaps():
    assert gaps(11) == [1, 2, 2, 4]
