"""Divides the period of a usage report into time buckets and pages, for the organisation API."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass

from gateway.errors import InvalidRequest

MAX_PERIOD = 366 * 86_400
"""Longest period in seconds that one request may ask for."""
WIDTHS = {"1m": 60, "1h": 3_600, "1d": 86_400}

_PAGE = re.compile(r"page_([0-9]{1,12})")


@dataclass(frozen=True)
class Period:
    """A period from `since` (inclusive) to `until` (exclusive), in Unix seconds."""

    since: int
    until: int

    def buckets(self, width: int, number: int) -> list[Period]:
        """Divide the period at multiples of `width` seconds.

        Return the first `number` buckets, of which the ends may be shorter.
        """
        found: list[Period] = []
        begin = self.since
        while begin < self.until and len(found) < number:
            end = min(self.until, (begin // width + 1) * width)
            found.append(Period(begin, end))
            begin = end
        return found


def requested_period(start_time: int, end_time: int | None) -> Period:
    """Return the period of a report's query from `start_time` to `end_time`, or until now, in Unix seconds.

    Raises:
        InvalidRequest: The period is empty or longer than a year.
    """
    until = int(time.time()) + 1 if end_time is None else end_time
    if until <= start_time:
        raise InvalidRequest("Invalid 'end_time': it must be after 'start_time'.", param="end_time")
    if until - start_time > MAX_PERIOD:
        raise InvalidRequest("Invalid 'start_time': a year can be asked about at once.", param="start_time")
    return Period(start_time, until)


def page_of_period(period: Period, page: str | None) -> Period:
    """Return the rest of `period` from where the page with token `page` begins; for `None` all of it.

    Raises:
        InvalidRequest: `page` does not name a page of this period.
    """
    if page is None:
        return period
    match = _PAGE.fullmatch(page)
    if match is None or not period.since < int(match[1]) < period.until:
        raise InvalidRequest("Invalid 'page': use `next_page` of an answer to the same question.", param="page")
    return Period(int(match[1]), period.until)


def next_page(begin: int) -> str:
    """Return the page token of a usage report's page that begins at `begin` (Unix seconds)."""
    return f"page_{begin}"
