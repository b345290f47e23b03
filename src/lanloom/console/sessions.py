"""Whose rights a browser has. A session is a client with one user's credentials; nothing of it leaves the process."""

import asyncio
import base64
import secrets
from collections import Counter
from collections.abc import Callable
from random import Random

import msgspec
from msgspec import Struct, field

from lanloom.console.reading import Rights, UserReader
from lanloom.console.stores import Stores
from lanloom.kube.config import ClusterConfig
from lanloom.kube.http import HttpClient

IDLE_SECONDS, LONGEST_SECONDS = 3600.0, 12 * 3600.0
"""How long a session lasts without a request, and at all."""

MOST_SESSIONS, MOST_STREAMS = 200, 16
"""Sessions of the process, and streams of one session: a browser has one for each tab."""

ONCE_SECONDS = 600.0
"""How long a one-time link can be used."""


class Session(Struct):
    """A browser that has logged in, until it is idle for too long. Its streams stop when it has `ended`."""

    reader: UserReader
    user: str
    began: float
    used: float
    streams: int = 0
    ended: asyncio.Event = field(default_factory=asyncio.Event)


class _Claims(Struct):
    sub: str
    iss: str = ""


def user_of(config: ClusterConfig) -> str:
    """Return whose credentials these are: the subject of a token, of which there may be many; else the token itself.

    It is not verified: the API server has accepted the token, and it only counts sessions.
    """
    payload = config.token.split(".")[1] if config.token.count(".") == 2 else ""  # a JSON Web Token
    try:
        padded = payload + "=" * (-len(payload) % 4)
        claims = msgspec.json.decode(base64.urlsafe_b64decode(padded), type=_Claims)
    except ValueError:
        return config.token
    return f"{claims.iss} {claims.sub}"


class Sessions:
    """The sessions by their secret identifiers. `now` is a clock that never goes back, in seconds.

    `shared` are kinds that the console follows as itself, for all users.
    """

    def __init__(self, now: Callable[[], float], shared: Stores | None = None) -> None:
        self._now = now
        self._shared = shared
        self._sessions: dict[str, Session] = {}
        self._links: dict[str, tuple[ClusterConfig, float]] = {}

    def link(self, config: ClusterConfig) -> str:
        """Return a secret that opens one session with these credentials, once and soon."""
        secret = secrets.token_urlsafe(32)
        self.admit(secret, config, ONCE_SECONDS)
        return secret

    def admit(self, secret: str, config: ClusterConfig, seconds: float) -> None:
        """Let a secret open one session with these credentials, once and within so many seconds."""
        self._links[secret] = (config, self._now() + seconds)

    def redeem(self, secret: str) -> ClusterConfig | None:
        """Return the credentials of a one-time link, which is used up then; None for one that is not valid."""
        config, until = self._links.pop(secret, (None, 0.0))
        return config if until > self._now() else None

    async def open(self, config: ClusterConfig) -> str:
        """Begin a session; return its identifier. The one idle longest of the user with the most makes room."""
        await self.expire()
        if len(self._sessions) >= MOST_SESSIONS:
            counts = Counter(session.user for session in self._sessions.values())
            most = max(counts.values())
            owned = {name: item for name, item in self._sessions.items() if counts[item.user] == most}
            await self.close(min(owned, key=lambda name: owned[name].used))
        identifier, now = secrets.token_urlsafe(32), self._now()
        self._sessions[identifier] = Session(self._reader(config), user_of(config), now, now)
        return identifier

    def _reader(self, config: ClusterConfig) -> UserReader:
        client = HttpClient(config)
        return UserReader(
            client, Stores(client, self._now, Random()), self._shared, Rights(client, self._now)
        )

    def find(self, identifier: str) -> Session | None:
        """Return a session that has not ended, and note that it is used."""
        session, now = self._sessions.get(identifier), self._now()
        if session is None or _is_over(session, now):
            return None
        session.used = now
        return session

    async def close(self, identifier: str) -> None:
        """End a session; one that is not there is no error."""
        if session := self._sessions.pop(identifier, None):
            session.ended.set()
            await session.reader.close()

    async def expire(self) -> None:
        """End the sessions that are over, and follow nothing that no session needs."""
        now = self._now()
        for session in self._sessions.values():
            session.reader.expire()
        if self._shared is not None:
            self._shared.expire()
        for identifier in [name for name, item in self._sessions.items() if _is_over(item, now)]:
            await self.close(identifier)

    async def close_all(self) -> None:
        """End all sessions."""
        for identifier in tuple(self._sessions):
            await self.close(identifier)


def _is_over(session: Session, now: float) -> bool:
    return now - session.began > LONGEST_SECONDS or (
        now - session.used > IDLE_SECONDS and not session.streams
    )
