"""The settings of a server."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, fields
from pathlib import Path

from judges.errors import MagistrateError
from server.bodies import MOST_VALUES

MIB = 1024**2
GIB = 1024**3


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Settings of a server: where it listens, what it keeps and what it refuses.

    Attributes:
        host: The address to listen on. Any but a loopback address makes keys required, whatever ``require_keys`` says.
        port: The TCP port; 0 for any free one.
        database: Where files, batches and keys are kept: ``sqlite:///PATH`` or ``postgresql://USER@HOST/NAME``.
        require_keys: Whether every call must carry a key.
        hosts: Names, with or without a port, that a ``Host`` header may give besides the loopback ones. If other machines
            reach the server, none means any.
        max_body: Bytes of the body of an ordinary call.
        max_upload: Bytes of the body of an upload.
        quota: Bytes of all files of one caller together; ``None`` for no limit.
        max_matrix: Bytes of the body of an assignment.
        max_samples: Samples of one call, or answers of one completion.
        max_values: Values (numbers, texts, lists, objects) in the body of an ordinary call.
        max_queued: Lines of all unfinished batches together.
        rate: Calls a minute of each caller, which it may also make at once; ``None`` for no limit.
        body_seconds: Seconds that a client may stall in sending a request's body or reading an answer.
        head_seconds: Seconds that a client may take to send a request's head.
        max_connections: Open connections.
        log_samples: Whether the log may hold the text of samples.
        dashboards: The folder to which studies publish, each in a folder with an ``index.html``.
        adapter_folders: Folders from which adapters may be loaded while the server runs.
        adapter_copies: The folder with a copy of each loaded adapter, from which a restarted server loads them.

    Raises:
        MagistrateError: The port is not one, or a limit is not above 0.
    """

    host: str = "127.0.0.1"
    port: int = 8700
    database: str = "sqlite:///magistrate.db"
    require_keys: bool = False
    hosts: tuple[str, ...] = ()
    max_body: int = 16 * MIB
    max_upload: int = 4 * GIB
    quota: int | None = 64 * GIB
    max_matrix: int = 128 * MIB
    max_samples: int = 1024
    max_values: int = MOST_VALUES
    max_queued: int = 20_000_000
    rate: int | None = None
    body_seconds: float = 30.0
    head_seconds: float = 15.0
    max_connections: int = 4096
    log_samples: bool = False
    dashboards: Path = Path("dashboards")
    adapter_folders: tuple[Path, ...] = ()
    adapter_copies: Path = Path("loaded-adapters")

    def __post_init__(self) -> None:
        if not 0 <= self.port <= 65_535:
            raise MagistrateError(f"port {self.port} does not exist: give one from 0 to 65535")
        for name in {field.name for field in fields(self)} - {"port"}:
            value = getattr(self, name)
            if type(value) in (int, float) and not value > 0:
                raise MagistrateError(f"the setting `{name}` is {value}: give a number above 0")
        if not self.loopback:
            object.__setattr__(self, "require_keys", True)

    @property
    def loopback(self) -> bool:
        """True if only this machine can reach the server."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def open(self) -> bool:
        """True if calls without a key are answered."""
        return self.loopback and not self.require_keys
