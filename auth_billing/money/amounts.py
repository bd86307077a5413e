"""Amounts of money as people write and read them: USD, exact to the nano-USD that everything is counted in.

Whatever comes from outside passes `check_amount` or `nano_of` before it meets a number in the store: amounts are
bounded there, because the store does not refuse a sum past 64 bits.
"""

from __future__ import annotations

from decimal import Decimal

from auth_billing.errors import UnacceptableAmount
from auth_billing.prices.pricing import NANO

LARGEST = 10**18
"""Nano-USD: a thousand million USD. Nine of them fit into 64 bits."""
_DIGITS = 9


def nano_of(usd: str, *, least: int = 1) -> int:
    """Nano-USD of a decimal number of USD like `12.50`.

    Raises:
        UnacceptableAmount: no such number, less than `least`, finer than a nano-USD, or too large.
    """
    whole, point, fraction = usd.partition(".")
    digits = whole.isdigit() and (fraction.isdigit() or not point)
    if not (usd.isascii() and digits and len(whole) <= _DIGITS + 1 and len(fraction) <= _DIGITS):
        raise UnacceptableAmount("an amount is written like 12.50: digits, at most nine of them after the point")
    return check_amount(int(Decimal(usd) * NANO), least=least)


def check_amount(nano: object, *, least: int = 1) -> int:
    """Accept an integer number of nano-USD.

    Raises:
        UnacceptableAmount: it is no integer (a bool is none), less than `least`, or too large.
    """
    if not isinstance(nano, int) or isinstance(nano, bool):
        raise UnacceptableAmount("an amount is an integer number of nano-USD")
    if not least <= nano <= LARGEST:
        raise UnacceptableAmount("an amount is more than nothing and at most a thousand million USD")
    return nano


def usd(nano: int) -> str:
    """`12.50`: all that there is of it, at least two places after the point."""
    whole, fraction = divmod(abs(nano), NANO)
    places = f"{fraction:09d}".rstrip("0").ljust(2, "0")
    return f"{'-' if nano < 0 else ''}{whole}.{places}"
