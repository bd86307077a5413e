"""Buckets and slots in MongoDB: `rate_buckets {_id: subject, full_at: {dimension: s}, holders: {holder: {n, until}}}`.

An order is one update whose filter says whether it can be fulfilled, and whose pipeline does the arithmetic of
`rate_limits/bucket.py`, by the server's clock: gateways need not agree on the time. It may be forgotten in a crash of
the store, so it does not wait for the journal. What nobody asked for in two days is dropped.
"""

from __future__ import annotations

from typing import Any

from pymongo import ReturnDocument
from pymongo.errors import DuplicateKeyError

from auth_billing.errors import StoreUnavailable
from auth_billing.rate_limits.bucket import MOST_PERIODS, ROUNDING
from auth_billing.rate_limits.limits import Dimension
from auth_billing.rate_limits.ports import Line, Order, Position, Slots
from auth_billing.store.connection import StoreConnection, translated_errors

COLLECTION = "rate_buckets"
KEPT_MILLISECONDS = 2 * 86_400_000
TRIES = 3

_NOW: dict[str, Any] = {"$divide": [{"$toLong": "$$NOW"}, 1000]}

Expression = dict[str, Any]


class MongoBucketStore:
    """Implements `rate_limits.ports.BucketStore`."""

    def __init__(self, connection: StoreConnection) -> None:
        self._buckets = connection.passing(COLLECTION)

    async def exchange(self, subject: str, order: Order) -> Position:
        """Carry out an order. One that can't be fulfilled changes, and writes, nothing."""
        query, update = {"_id": subject, "$expr": _possible(order)}, [{"$set": _changes(order)}]
        standing = [{"$match": {"_id": subject}}, {"$set": {"now": _NOW, "others": _others(order)}}]
        for _ in range(TRIES):
            with translated_errors():
                done = await self._buckets.find_one_and_update(query, update, return_document=ReturnDocument.AFTER)
                if done is not None:
                    return _position(done, order, fulfilled=True)
                found = await self._buckets.aggregate(standing).to_list(1)
            if found:
                return _position(found[0], order, fulfilled=False)
            await self._add(subject)  # an upsert would not look at what is needed
        raise StoreUnavailable("a bucket comes and goes")

    async def _add(self, subject: str) -> None:
        try:
            with translated_errors():
                await self._buckets.insert_one({"_id": subject})
        except DuplicateKeyError:
            return


def _possible(order: Order) -> Expression:
    """Whether all that is needed is there."""
    conditions: list[Expression] = [
        {"$gte": [_room(dimension, line), line.need]} for dimension, line in order.lines.items() if line.need
    ]
    if order.slots is not None and order.slots.need > order.slots.running:
        conditions.append({"$gte": [_free(order, order.slots), order.slots.need]})
    return {"$and": conditions}


def _changes(order: Order) -> Expression:
    changes: Expression = {"now": _NOW, "expires": {"$add": ["$$NOW", KEPT_MILLISECONDS]}}
    for dimension, line in order.lines.items():
        taken = {"$max": [0, {"$min": [line.want, _room(dimension, line)]}]}
        missing = {"$add": [_missing(dimension, line), {"$multiply": [taken, line.rate.unit]}]}
        changes[f"taken.{dimension}"] = taken
        changes[f"full_at.{dimension}"] = {"$add": [_NOW, missing]}
    if order.slots is not None:
        changes["others"] = _others(order)
        changes["holders"] = _holders(order, order.slots)
    return changes


def _missing(dimension: Dimension, line: Line) -> Expression:
    """`bucket.missing_seconds`, once `line.back` is given back."""
    most = MOST_PERIODS * line.rate.period
    ahead = {"$subtract": [{"$ifNull": [f"$full_at.{dimension}", 0]}, _NOW]}
    impossible = {"$or": [{"$lte": ["$$ahead", 0]}, {"$gt": ["$$ahead", most]}]}
    missing = {"$let": {"vars": {"ahead": ahead}, "in": {"$cond": [impossible, 0, "$$ahead"]}}}
    return {"$min": [most, {"$max": [0, {"$subtract": [missing, line.back * line.rate.unit]}]}]}


def _room(dimension: Dimension, line: Line) -> Expression:
    """`bucket.room`, once `line.back` is given back."""
    there = {"$subtract": [line.rate.period + ROUNDING, _missing(dimension, line)]}
    return {"$min": [line.rate.capacity, {"$floor": {"$divide": [there, line.rate.unit]}}]}


def _others_alive(order: Order) -> Expression:
    """The other holders whose time has not run out, as pairs of key and value."""
    alive = {"$and": [{"$ne": ["$$holder.k", order.holder]}, {"$gt": ["$$holder.v.until", _NOW]}]}
    holders = {"$objectToArray": {"$ifNull": ["$holders", {}]}}
    return {"$filter": {"input": holders, "as": "holder", "cond": alive}}


def _others(order: Order) -> Expression:
    return {"$sum": {"$map": {"input": _others_alive(order), "as": "holder", "in": "$$holder.v.n"}}}


def _free(order: Order, slots: Slots) -> Expression:
    return {"$subtract": [slots.limit, _others(order)]}


def _holders(order: Order, slots: Slots) -> Expression:
    held = {"$max": [slots.running, {"$min": [slots.want, _free(order, slots)]}]}
    mine = {"k": order.holder, "v": {"n": held, "until": {"$add": [_NOW, slots.seconds]}}}
    return {"$arrayToObject": {"$concatArrays": [_others_alive(order), [mine]]}}


def _position(document: dict[str, Any], order: Order, *, fulfilled: bool) -> Position:
    full_at, taken = document.get("full_at", {}), document.get("taken", {})
    return Position(
        now=float(document["now"]),
        fulfilled=fulfilled,
        full_at={dimension: float(full_at.get(dimension, 0.0)) for dimension in order.lines},
        taken={dimension: int(taken[dimension]) for dimension in order.lines} if fulfilled else {},
        slots=int(document["holders"][order.holder]["n"]) if fulfilled and order.slots is not None else 0,
        other_slots=int(document.get("others", 0)),
    )
