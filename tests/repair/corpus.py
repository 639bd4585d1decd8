"""Small programs with one bug each, written for tests of the whole search.

Each is (name, module text, test text). The tests are the specification. Several per program prevent
an edit that satisfies one assertion by chance.
"""

PROGRAMS: dict[str, tuple[str, str]] = {
    "leap_year_boolean": (
        """
def leap(year):
    return year % 4 == 0 and year % 100 != 0 and year % 400 == 0
""",
        """
from program import leap

def test_ordinary():
    assert leap(2024)
    assert not leap(2023)

def test_centuries():
    assert leap(2000)
    assert not leap(1900)
""",
    ),
    "running_total_return_in_loop": (
        """
def running(values):
    total = 0
    sums = []
    for value in values:
        total += value
        sums.append(total)
        return sums
""",
        """
from program import running

def test_running():
    assert running([1, 2, 3]) == [1, 3, 6]

def test_one():
    assert running([4]) == [4]
""",
    ),
    "missing_return": (
        """
def initials(name):
    letters = [part[0] for part in name.split()]
    ".".join(letters) + "."
""",
        """
from program import initials

def test_two():
    assert initials("Ada Byron") == "A.B."

def test_one():
    assert initials("Plato") == "P."
""",
    ),
    "missing_import": (
        """
def area(radius):
    return math.pi * radius ** 2
""",
        """
import math
from program import area

def test_unit():
    assert area(1) == math.pi

def test_nothing():
    assert area(0) == 0
""",
    ),
    "missing_from_import": (
        """
def words(text):
    counts = defaultdict(int)
    for word in text.split():
        counts[word] += 1
    return dict(counts)
""",
        """
from program import words

def test_words():
    assert words("a b a") == {"a": 2, "b": 1}
""",
    ),
    "misspelt_name": (
        """
def mean(values):
    total = sum(values)
    return totl / len(values)
""",
        """
from program import mean

def test_mean():
    assert mean([1, 2, 3]) == 2
""",
    ),
    "misspelt_method": (
        """
def collect(pairs):
    seen = []
    for key, value in pairs:
        if value:
            seen.add(key)
    return seen
""",
        """
from program import collect

def test_collect():
    assert collect([("a", 1), ("b", 0), ("c", 2)]) == ["a", "c"]

def test_none():
    assert collect([]) == []
""",
    ),
    "wrong_key": (
        """
def label(person):
    return f"{person['name']} ({person['year']})"

def people():
    return [{"name": "Ada", "born": 1815}]
""",
        """
from program import label, people

def test_label():
    assert label(people()[0]) == "Ada (1815)"
""",
    ),
    "counting_key": (
        """
def tally(votes):
    counts = {}
    for vote in votes:
        counts[vote] += 1
    return counts
""",
        """
from program import tally

def test_tally():
    assert tally("abca") == {"a": 2, "b": 1, "c": 1}
""",
    ),
    "binary_search_bound": (
        """
def find(items, wanted):
    low, high = 0, len(items) - 1
    while low < high:
        middle = (low + high) // 2
        if items[middle] == wanted:
            return middle
        if items[middle] < wanted:
            low = middle + 1
        else:
            high = middle - 1
    return -1
""",
        """
from program import find

def test_every_place():
    items = [2, 3, 5, 7, 11]
    assert [find(items, item) for item in items] == [0, 1, 2, 3, 4]

def test_absent():
    assert find([1, 2], 9) == -1
    assert find([], 9) == -1
""",
    ),
    "range_too_short": (
        '''
def primes(limit):
    """All primes up to and including `limit`."""
    found = []
    for number in range(2, limit):
        if all(number % prime for prime in found):
            found.append(number)
    return found
''',
        """
from program import primes

def test_inclusive():
    assert primes(7) == [2, 3, 5, 7]

def test_small():
    assert primes(2) == [2]
    assert primes(1) == []
""",
    ),
    "index_behind_the_end": (
        """
def steps(values):
    found = []
    for i in range(len(values)):
        found.append(values[i + 1] - values[i])
    return found
""",
        """
from program import steps

def test_steps():
    assert steps([1, 4, 9]) == [3, 5]

def test_short():
    assert steps([1]) == []
""",
    ),
    "fibonacci_base_case": (
        """
def fib(n):
    if n == 0:
        return 0
    return fib(n - 1) + fib(n - 2)
""",
        """
from program import fib

def test_start():
    assert [fib(n) for n in range(3)] == [0, 1, 1]

def test_ten():
    assert fib(10) == 55
""",
    ),
    "factorial_base_case": (
        """
def factorial(n):
    return n * factorial(n - 1)
""",
        """
from program import factorial

def test_factorial():
    assert factorial(0) == 1
    assert factorial(5) == 120
""",
    ),
    "mutable_default": (
        '''
def enlist(name, names=[]):
    """A list with one more name."""
    names.append(name)
    return names
''',
        """
from program import enlist

def test_fresh():
    assert enlist("a") == ["a"]
    assert enlist("b") == ["b"]

def test_given():
    assert enlist("b", ["a"]) == ["a", "b"]
""",
    ),
    "swapped_arguments": (
        """
def ratio(part, whole):
    return part / whole

def percent(part, whole):
    return 100 * ratio(whole, part)
""",
        """
from program import percent

def test_percent():
    assert percent(1, 4) == 25
    assert percent(3, 4) == 75
""",
    ),
    "wrong_variable": (
        """
def box(width, height, depth):
    base = width * height
    return base * width
""",
        """
from program import box

def test_box():
    assert box(2, 3, 4) == 24
    assert box(1, 1, 7) == 7
""",
    ),
    "floor_division": (
        """
def mean(values):
    return sum(values) // len(values)
""",
        """
from program import mean

def test_mean():
    assert mean([1, 2]) == 1.5
    assert mean([2, 4]) == 3
""",
    ),
    "empty_mean": (
        """
def mean(values):
    return sum(values) / len(values)
""",
        """
from program import mean

def test_mean():
    assert mean([1, 2]) == 1.5

def test_nothing():
    assert mean([]) == 0
""",
    ),
    "null_lookup": (
        """
USERS = {1: {"name": "ada"}}

def user(number):
    return USERS.get(number)

def name(number):
    found = user(number)
    return found["name"].title()
""",
        """
from program import name

def test_known():
    assert name(1) == "Ada"

def test_unknown():
    assert name(2) == ""
""",
    ),
    "missing_f": (
        """
def greet(name, times):
    return "Hello {name}, visit {times}"
""",
        """
from program import greet

def test_greet():
    assert greet("Ada", 3) == "Hello Ada, visit 3"
""",
    ),
    "concatenated_number": (
        """
def ticket(seat, row):
    return "row " + row + " seat " + str(seat)
""",
        """
from program import ticket

def test_ticket():
    assert ticket(4, 12) == "row 12 seat 4"
""",
    ),
    "sort_order": (
        '''
def podium(scores):
    """The three best, best first."""
    ranked = sorted(scores, key=lambda name: scores[name])
    return ranked[:3]
''',
        """
from program import podium

def test_podium():
    assert podium({"a": 3, "b": 9, "c": 5, "d": 1}) == ["b", "c", "a"]
""",
    ),
    "any_for_all": (
        """
def strong(password):
    rules = [str.isdigit, str.isupper, str.islower]
    return any(any(rule(c) for c in password) for rule in rules)
""",
        """
from program import strong

def test_strong():
    assert strong("aB3")

def test_weak():
    assert not strong("ab3")
    assert not strong("")
""",
    ),
    "unexpected_keyword": (
        """
def pad(text, width, filling=" "):
    return text + filling * (width - len(text))

def dotted(text):
    return pad(text, 6, fill=".")
""",
        """
from program import dotted

def test_dotted():
    assert dotted("abc") == "abc..."
""",
    ),
    "missing_self": (
        """
class Counter:
    def __init__(self):
        self.count = 0

    def up(step):
        self.count += step
        return self.count
""",
        """
from program import Counter

def test_up():
    counter = Counter()
    assert counter.up(2) == 2
    assert counter.up(3) == 5
""",
    ),
    "accumulator_overwritten": (
        """
def cost(items):
    total = 0
    for price, count in items:
        total = price * count
    return total
""",
        """
from program import cost

def test_cost():
    assert cost([(2, 3), (5, 1)]) == 11

def test_nothing():
    assert cost([]) == 0
""",
    ),
    "missing_colon": (
        """
def sign(number):
    if number < 0
        return -1
    return 1 if number else 0
""",
        """
from program import sign

def test_sign():
    assert [sign(n) for n in (-5, 0, 5)] == [-1, 0, 1]
""",
    ),
    "age_not_refused": (
        '''
def admit(age):
    """Guests must be at least eighteen; others raise ValueError."""
    if age <= 17.0 and age > 18:
        raise ValueError("too young")
    return True
''',
        """
import pytest
from program import admit

def test_young():
    with pytest.raises(ValueError):
        admit(17)

def test_old_enough():
    assert admit(18)
    assert admit(40)
""",
    ),
    "unbound": (
        """
def longest(words):
    for word in words:
        if len(word) > len(best):
            best = word
    return best
""",
        """
from program import longest

def test_longest():
    assert longest(["a", "ccc", "bb"]) == "ccc"

def test_nothing():
    assert longest([]) == ""
""",
    ),
    "caller_changed": (
        """
def without_last(items):
    rest = items
    rest.pop()
    return rest
""",
        """
from program import without_last

def test_the_caller_keeps_the_list():
    given = [1, 2, 3]
    assert without_last(given) == [1, 2]
    assert given == [1, 2, 3]
""",
    ),
    "separator": (
        """
def csv(row):
    return ";".join(str(cell) for cell in row)
""",
        """
from program import csv

def test_csv():
    assert csv([1, "a", 2]) == "1,a,2"
""",
    ),
    "initial_value": (
        """
def product(numbers):
    result = 0
    for number in numbers:
        result *= number
    return result
""",
        """
from program import product

def test_product():
    assert product([2, 3, 4]) == 24
    assert product([]) == 1
""",
    ),
    "rounded_too_little": (
        """
def gross(net):
    return round(net * 1.19, 1)
""",
        """
from program import gross

def test_gross():
    assert gross(9.99) == 11.89
    assert gross(1) == 1.19
""",
    ),
}
