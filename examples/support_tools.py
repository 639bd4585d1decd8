"""The tools of support.yaml. In real life they would call a shop's service."""

from taofold import tool

ORDERS = {1001: {"item": "lamp", "paid": 49.0}, 1002: {"item": "book", "paid": 12.5}}
REFUNDS: list[tuple[int, float]] = []
SENT: list[str] = []


@tool(effect="read")
def find_order(number: int) -> dict[str, object]:
    """Find an order by its number."""
    if number not in ORDERS:
        raise LookupError(f"there is no order {number}")
    return ORDERS[number]


@tool(tier=3, effect="once")
def refund(number: int, amount: float) -> str:
    """Give the money back."""
    REFUNDS.append((number, amount))
    return f"refunded {amount:.2f} for order {number}"


@tool(tier=2, effect="once")
def send_reply(text: str) -> str:
    """Send the answer to the customer."""
    SENT.append(text)
    return "sent"
