"""Converts and validates amounts of money: USD as people write it, integer nano-USD inside the platform.

Amounts from outside pass `check_amount` or `parse_usd` before they reach the store, because MongoDB does not refuse a
sum past 64 bits.
"""

from __future__ import annotations

from decimal import Decimal

from auth_billing.errors import UnacceptableAmount
from auth_billing.prices.pricing import NANO

MAX_AMOUNT = 10**18
"""The largest accepted amount in nano-USD: a thousand million USD. Nine of them fit into 64 bits."""
_DIGITS = 9


def parse_usd(usd: str, *, minimum: int = 1) -> int:
    """Parse a decimal number of USD like `12.50` and return it in nano-USD, at least `minimum`.

    Raises:
        UnacceptableAmount: malformed, less than `minimum`, finer than a nano-USD, or too large.
    """
    whole, point, fraction = usd.partition(".")
    digits = whole.isdigit() and (fraction.isdigit() or not point)
    if not (usd.isascii() and digits and len(whole) <= _DIGITS + 1 and len(fraction) <= _DIGITS):
        raise UnacceptableAmount("an amount is written like 12.50: digits, at most nine of them after the point")
    return check_amount(int(Decimal(usd) * NANO), minimum=minimum)


def check_amount(nano: object, *, minimum: int = 1) -> int:
    """Return `nano` unchanged if it is an integer number of nano-USD from `minimum` to `MAX_AMOUNT`.

    Raises:
        UnacceptableAmount: not an integer (a bool is none), less than `minimum`, or too large.
    """
    if not isinstance(nano, int) or isinstance(nano, bool):
        raise UnacceptableAmount("an amount is an integer number of nano-USD")
    if not minimum <= nano <= MAX_AMOUNT:
        raise UnacceptableAmount("an amount is more than nothing and at most a thousand million USD")
    return nano


def format_usd(nano: int) -> str:
    """Return an amount of nano-USD as text: exact USD with two to nine decimal places, e.g. `12.50`."""
    whole, fraction = divmod(abs(nano), NANO)
    places = f"{fraction:09d}".rstrip("0").ljust(2, "0")
    return f"{'-' if nano < 0 else ''}{whole}.{places}"
