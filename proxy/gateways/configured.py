"""The accounts of the configuration's `users`: their passwords as `accounts` stores them, and their rights."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from proxy.config import Config, User
from proxy.login.accounts import Account, Accounts
from proxy.rights.account_rights import AccountRights, QueueRights, queue_rights


async def configured_accounts(config: Config) -> Accounts:
    """All accounts. Hashing passwords as MySQL does takes its time, by design: not on the event loop."""
    return await asyncio.to_thread(lambda: Accounts([_account(user) for user in config.accounts]))


def _account(user: User) -> Account:
    if user.password_hash is not None:
        return Account.with_hash(user.name, user.password_hash.get_secret_value())
    return Account.with_password(user.name, user.password.get_secret_value() if user.password is not None else "")


def configured_rights(config: Config) -> Mapping[str, AccountRights]:
    """What each of them may do."""
    return {
        user.name: AccountRights(_limits(user, config.own_database), user.may_kill_others) for user in config.accounts
    }


def _limits(user: User, database: str | None) -> QueueRights | None:
    if user.queues is None and user.topics is None:
        return None
    return queue_rights(user.queues or {}, database, user.topics)
