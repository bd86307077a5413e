"""MongoDB store of users: `users {_id, email, folded, name, created, password, version}`; `folded` is unique."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from pymongo import ReturnDocument

from auth_billing.people.input_normalisation import fold_email
from auth_billing.people.people_records import User
from auth_billing.store.connection import StoreConnection
from auth_billing.store.documents import from_document, to_document

COLLECTION = "users"
UNIQUE = "folded"

_user = partial(from_document, User)


class MongoUserStore:
    """MongoDB implementation of `people_records.UserStore`. Writes are journaled; methods raise `StoreUnavailable`."""

    def __init__(self, connection: StoreConnection) -> None:
        self._users = connection.durable(COLLECTION)

    async def add(self, user: User) -> bool:
        """Store a new user durably; return false if the e-mail address is taken."""
        return await self._users.insert_if_absent(to_document(user, **{UNIQUE: fold_email(user.email)}))

    async def find(self, user_id: str) -> User | None:
        """Return the user with this id, or `None` if there is none."""
        return await self._users.find_record(_user, {"_id": user_id})

    async def find_by_email(self, email: str) -> User | None:
        """Return the user with this e-mail address, compared case-folded, or `None` if there is none."""
        return await self._users.find_record(_user, {UNIQUE: fold_email(email)})

    async def find_all(self, user_ids: Sequence[str]) -> list[User]:
        """Return the users with these ids, in any order; unknown ids are left out."""
        return [_user(document) async for document in self._users.find({"_id": {"$in": list(user_ids)}})]

    async def rehash(self, user_id: str, old: str, new: str) -> bool:
        """Replace the hash `old` of a user's unchanged password by `new`; return false if another hash is stored."""
        return await self._users.update_matching({"_id": user_id, "password": old}, {"$set": {"password": new}})

    async def change_password(self, user_id: str, old: str, new: str) -> User | None:
        """Replace the password hash `old` by `new` and increment the user's version, which ends all sessions.

        Return the changed user, or `None` if `old` is no longer the stored hash.
        """
        return await self._set_password({"_id": user_id, "password": old}, new)

    async def reset_password(self, user_id: str, version: int, new: str) -> User | None:
        """Replace the password hash by `new` and increment the user's version, which ends all sessions.

        Return the changed user, or `None` if the user's version is not `version` any more.
        """
        return await self._set_password({"_id": user_id, "version": version}, new)

    async def end_sessions(self, user_id: str) -> None:
        """End all browser sessions of a user, by incrementing the user's version."""
        await self._users.update_one({"_id": user_id}, {"$inc": {"version": 1}})

    async def _set_password(self, query: dict[str, Any], new: str) -> User | None:
        document = await self._users.find_one_and_update(
            query, {"$set": {"password": new}, "$inc": {"version": 1}}, return_document=ReturnDocument.AFTER
        )
        return None if document is None else _user(document)
