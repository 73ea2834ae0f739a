"""One at a time, and fair: those who wait take turns, however much one of them asks for."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class TooManyWaitingError(Exception):
    """No more of this sender, or no more senders, may wait."""


class FairTurns:
    """Gives turns to senders in a circle; of each, a few may wait, the first to come first."""

    def __init__(self, max_of_one: int, max_senders: int) -> None:
        self._max_of_one, self._max_senders = max_of_one, max_senders
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}
        """The sender with the next turn comes first."""
        self._is_taken = False

    @asynccontextmanager
    async def turn(self, sender: str) -> AsyncIterator[None]:
        """Wait for a turn, which lasts as long as the block; raises `TooManyWaitingError`."""
        if self._is_taken:
            await self._wait(sender)
        self._is_taken = True
        try:
            yield
        finally:
            self._pass_on()

    async def _wait(self, sender: str) -> None:
        if sender not in self._waiting and len(self._waiting) >= self._max_senders:
            raise TooManyWaitingError
        own = self._waiting.setdefault(sender, deque())
        if len(own) >= self._max_of_one:
            raise TooManyWaitingError
        mine = asyncio.get_running_loop().create_future()
        own.append(mine)
        try:
            await mine
        except asyncio.CancelledError:
            if mine.done() and not mine.cancelled():
                self._pass_on()  # it was this one's turn
            raise

    def _pass_on(self) -> None:
        """Give the turn to the first who still waits; to nobody if there is none."""
        self._is_taken = False
        while self._waiting:
            sender = next(iter(self._waiting))
            own = self._waiting.pop(sender)
            first = own.popleft()
            if own:
                self._waiting[sender] = own  # behind the others
            if not first.done():
                self._is_taken = True
                first.set_result(None)
                return
