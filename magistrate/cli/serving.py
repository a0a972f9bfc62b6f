"""``magistrate serve`` and ``magistrate keys``."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from socket import socket
from types import FrameType

import uvicorn
from rich.console import Console
from rich.table import Table

from judges.errors import MagistrateError, counted
from magistrate.cli.stopping import exit_status, stopping
from server.app import DRAIN_SECONDS as BATCH_SECONDS
from server.app import create_app
from server.hosting.models_file import preset_for_this_machine, read_models
from server.model_pool import ModelPool
from server.safety.callers import make_key
from server.safety.logs import configure_logs
from server.safety.slow_clients import serving_config
from server.settings import Settings
from server.store import Store

DRAIN_SECONDS = 10
"""How long a stopping server waits for answers in progress; it waits for lines of batches after that."""


class _Server(uvicorn.Server):
    """uvicorn's server, which stops in order at the first stop signal and at once at a second."""

    stopped_by: int | None = None

    def __init__(self, config: uvicorn.Config, pool: Callable[[], ModelPool], console: Console) -> None:
        super().__init__(config)
        self._pool, self._console = pool, console
        self._announced: set[str] = set()

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Stop at a signal while the server runs."""
        with stopping(self._stop):
            yield

    async def on_tick(self, counter: int) -> bool:
        """Print once for each model that it is ready, or that it failed."""
        for name, model in self._pool().models.items():
            if name not in self._announced and model.state in ("ready", "failed"):
                self._announced.add(name)
                self._say(f"{name} is ready" if model.state == "ready" else f"{name} cannot be loaded: {model.reason}")
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket] | None = None) -> None:
        """Stop, and print what the server waits for."""
        models = self._pool().models.values()
        waited = [f"up to {DRAIN_SECONDS} s for {counted(calls, 'call')}"] if (calls := len(self.server_state.tasks)) else []
        waited += [f"up to {BATCH_SECONDS:.0f} s for lines of batches"] if any(model.available for model in models) else []
        self._say(f"stopping{': waiting ' if waited else ''}{' and '.join(waited)}; a second signal ends at once")
        loading = any(model.state in ("loading", "restarting") for model in models)
        await super().shutdown(sockets)
        if loading:
            # Libraries that a thread imports cannot be stopped, and Python would wait for them.
            os._exit(exit_status(signal.SIGINT) if self.stopped_by == signal.SIGINT else 0)

    def _say(self, sentence: str) -> None:
        self._console.print(sentence, markup=False, highlight=False, soft_wrap=True)

    def _stop(self, number: int, frame: FrameType | None) -> None:
        self.stopped_by = number
        self.should_exit = True


def serve(settings: Settings, models: str | None, console: Console) -> None:
    """Serve until a stop signal.

    Args:
        settings: Where to listen and what to refuse.
        models: A ``models.toml`` or a preset; the preset for this machine by default.
        console: Where to print the address and the models.

    Raises:
        MagistrateError: The models, the database or the address cannot be used.
    """
    hosted = read_models(models or preset_for_this_machine())
    store = Store.open(settings.database)
    usable = [key for key in store.keys() if key.revoked_at is None]  # noqa: SIM118
    if settings.require_keys and not usable:
        store.close()
        raise MagistrateError(
            f"{settings.host} can be reached from other machines, so calls need keys, and no key exists: "
            f"make one with `magistrate keys add NAME --database {settings.database}`"
        )
    configure_logs(samples=settings.log_samples)
    app = create_app(settings, hosted, store)
    config = serving_config(app, settings, timeout_graceful_shutdown=DRAIN_SECONDS)
    server = _Server(config, lambda: app.state.pool, console)
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    console.print(
        f"serving {', '.join(hosted.models)} on http://{host}:{settings.port} (the API: /docs); Ctrl-C stops", highlight=False
    )
    console.print("loading: a line says here when a model is ready, and calls wait for it", highlight=False)
    try:
        server.run()
    finally:
        store.close()
    if server.stopped_by == signal.SIGINT:
        raise KeyboardInterrupt
    if not server.started and server.stopped_by is None:
        raise MagistrateError(f"nothing can be served on {host}:{settings.port}; is the port taken?")


def add_key(database: str, name: str) -> str:
    """Make a key, and return its text, which is stored nowhere."""
    store = Store.open(database, alone=False)
    try:
        key_id, text, digest = make_key()
        store.add_key(key_id, name, digest)
    finally:
        store.close()
    return text


def revoke_key(database: str, name: str) -> None:
    """Revoke a key.

    Raises:
        MagistrateError: There is no such key.
    """
    store = Store.open(database, alone=False)
    try:
        if not store.revoke_key(name):
            raise MagistrateError(f"there is no key `{name}`; `magistrate keys` lists them")
    finally:
        store.close()


def list_keys(database: str, console: Console) -> None:
    """Print the keys' names."""
    store = Store.open(database, alone=False)
    try:
        keys = store.keys()
    finally:
        store.close()
    table = Table("name", "made", "revoked", header_style="bold")
    for key in keys:
        table.add_row(key.name, _day(key.created_at), _day(key.revoked_at))
    console.print(table if keys else "there are no keys; `magistrate keys add NAME` makes one")


def _day(seconds: int | None) -> str:
    from datetime import UTC, datetime

    return "" if seconds is None else datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d")


def absolute(folders: list[Path] | None) -> tuple[Path, ...]:
    """Folders by their absolute paths."""
    return tuple(folder.resolve() for folder in folders or ())
