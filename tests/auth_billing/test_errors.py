"""The tree of errors: each has one base that callers catch, and says what its caller needs."""

from __future__ import annotations

import inspect

from auth_billing import errors


def test_every_error_is_an_account_error_with_a_docstring() -> None:
    found = [each for _, each in inspect.getmembers(errors, inspect.isclass) if each.__module__ == errors.__name__]
    assert all(issubclass(each, errors.AccountError) and each.__doc__ for each in found)


def test_a_refusal_of_a_hold_has_its_amounts() -> None:
    credit, budget = errors.InsufficientCredit(3, 5), errors.BudgetExhausted("key:key1", 2, 5)
    assert (credit.available, credit.needed) == (3, 5)
    assert (budget.budget, budget.left, budget.needed) == ("key:key1", 2, 5)
    assert all(isinstance(each, errors.HoldRefused) for each in (credit, budget, errors.AccountClosed()))


def test_refusals_that_end_by_themselves_say_when() -> None:
    assert errors.LargerThanLimit("too large", wait=1.5, kind="key").wait == 1.5
    assert errors.TooManySignIns("slow down", wait=2.5).wait == 2.5
    assert issubclass(errors.LargerThanLimit, errors.RateLimitExceeded)
