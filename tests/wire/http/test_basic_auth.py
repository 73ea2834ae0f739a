import asyncio
import base64

import bcrypt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wire.http.authorization import parse_basic
from wire.http.turns import TooManyWaitingError
from wire.http.webconfig import Users


def hashed(password: str) -> str:
    return bcrypt.hashpw(password.encode()[:72], bcrypt.gensalt(4)).decode()


@pytest.fixture
def checks(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """Every password that was put to bcrypt."""
    asked: list[bytes] = []
    really = bcrypt.checkpw

    def counting(password: bytes, hashed: bytes) -> bool:
        asked.append(password)
        return really(password, hashed)

    monkeypatch.setattr(bcrypt, "checkpw", counting)
    return asked


async def test_only_the_right_password_of_a_known_user_is_right() -> None:
    users = Users({"alice": hashed("wonder"), "bob": hashed("builder")})
    assert await users.verify("alice", b"wonder")
    assert await users.verify("bob", b"builder")
    assert not await users.verify("bob", b"wonder")
    assert not await users.verify("alice", b"")
    assert not await users.verify("", b"")
    # The very password whose hash stands in for that of unknown users.
    assert not await users.verify("carol", b"wonder")


async def test_a_scrape_every_few_seconds_pays_for_bcrypt_once(checks: list[bytes]) -> None:
    users = Users({"alice": hashed("wonder")})
    for _ in range(100):
        assert await users.verify("alice", b"wonder")
    assert len(checks) == 1
    assert not await users.verify("alice", b"guess")
    assert await users.verify("alice", b"wonder")
    assert len(checks) == 2


async def test_an_unknown_name_costs_what_a_known_one_costs(checks: list[bytes]) -> None:
    assert not await Users({"alice": hashed("wonder")}).verify("mallory", b"guess")
    assert checks == [b"guess"]


async def test_guesses_of_one_address_do_not_hold_up_another_one(checks: list[bytes]) -> None:
    users = Users({"alice": hashed("wonder")})
    guesses = [
        asyncio.create_task(users.verify("alice", str(number).encode(), f"10.0.{number % 2}.9"))
        for number in range(400)
    ]
    await asyncio.sleep(0)  # all of them wait, or were refused
    assert await users.verify("alice", b"wonder", "10.9.9.9")
    assert checks.index(b"wonder") <= 3, "one check that ran, and one of each address"
    answers = await asyncio.gather(*guesses, return_exceptions=True)
    refused = [each for each in answers if isinstance(each, TooManyWaitingError)]
    assert (len(refused), len(checks)) == (400 - 1 - 2 * 8, 1 + 2 * 8 + 1)
    assert await users.verify("alice", b"wonder", "10.0.1.9"), "the right password is known by now"


async def test_a_network_of_ipv6_has_one_share(checks: list[bytes]) -> None:
    users = Users({"alice": hashed("wonder")})
    guesses = (users.verify("alice", b"guess", f"2001:db8::{number:x}") for number in range(100))
    await asyncio.gather(*guesses, return_exceptions=True)
    assert len(checks) == 1 + 8


async def test_a_request_that_was_given_up_does_not_hold_up_the_others() -> None:
    users = Users({"alice": hashed("wonder")})
    asked = [asyncio.create_task(users.verify("alice", b"wonder", str(each))) for each in range(5)]
    await asyncio.sleep(0)
    for number in (1, 3):
        asked[number].cancel()
    answers = await asyncio.gather(*asked, return_exceptions=True)
    assert [each is True for each in answers] == [True, False, True, False, True]


async def test_however_many_guess_one_password_is_checked_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    running = most = 0

    async def to_thread(check: object, *arguments: object) -> bool:  # noqa: ARG001 - stands in for asyncio's
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1
        return False

    monkeypatch.setattr(asyncio, "to_thread", to_thread)
    users = Users({"alice": hashed("wonder")})
    guesses = [users.verify("alice", str(number).encode(), f"10.0.0.{number}") for number in range(50)]
    assert not any(await asyncio.gather(*guesses))
    assert most == 1


async def test_a_password_longer_than_bcrypt_looks_at_is_still_one() -> None:
    users = Users({"alice": hashed("long" * 50)})
    assert await users.verify("alice", b"long" * 50)
    assert not await users.verify("alice", b"long" * 17)


@given(st.text().filter(lambda name: ":" not in name), st.binary())
def test_what_a_client_sends_is_read_back(name: str, password: bytes) -> None:
    encoded = base64.b64encode(name.encode() + b":" + password).decode()
    assert parse_basic(f"Basic {encoded}") == (name, password)
    assert parse_basic(f"basic {encoded}") == (name, password)


@given(st.text() | st.text().map("Basic ".__add__))
def test_any_header_is_credentials_or_none(header: str) -> None:
    parse_basic(header)


@pytest.mark.parametrize(
    "header", ["", "Basic", "Basic !", "Bearer YTpi", "Basic " + base64.b64encode(b"no colon").decode()]
)
def test_no_credentials_are_none(header: str) -> None:
    assert parse_basic(header) is None
