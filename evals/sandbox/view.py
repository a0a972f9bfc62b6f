"""What of this machine's files a program sees: the interpreter, its standard library and the libraries it is linked with."""

from __future__ import annotations

import stat
import sys
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

SYSTEM_LIBRARIES = ("/usr/lib", "/usr/lib64", "/lib", "/lib64")
SYSTEM_DATA = ("/usr/share/zoneinfo", "/usr/lib/locale", "/etc/ld.so.cache")
LOADERS = "ld-*.so*"
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
PACKAGES = ("site-packages", "dist-packages", "python3*/site-packages", "python3*/dist-packages")
"""Where third-party packages lie, seen from a directory of libraries."""


@dataclass(frozen=True, slots=True)
class View:
    """What a program sees.

    Attributes:
        python: The interpreter, the one under any virtual environment.
        shown: Files and directories that are shown, read-only, where they lie.
        links: Symbolic links that are made anew, and what they say.
        covered: Directories below those shown that look empty: third-party packages.
    """

    python: str
    shown: tuple[str, ...]
    links: tuple[tuple[str, str], ...]
    covered: tuple[str, ...]


def view_of_python() -> View:
    """What the interpreter that runs this needs, wherever it is installed."""
    python = _base_interpreter()
    prefix = Path(sys.base_prefix).resolve()
    bases = {"base": str(prefix), "platbase": str(prefix)}
    wanted = [Path(sysconfig.get_path(name, vars=bases)) for name in ("stdlib", "platstdlib")]
    if prefix != Path("/usr"):
        wanted += [prefix / "lib", prefix / "lib64"]
    links = []
    for library in map(Path, SYSTEM_LIBRARIES):
        if library.is_symlink():
            links.append((str(library), str(library.readlink())))
            continue
        # Debian keeps what programs are linked with apart from what else lies there.
        linked = library / str(sysconfig.get_config_var("MULTIARCH"))
        wanted.append(linked if linked.is_dir() else library)
        for loader in library.glob(LOADERS):
            if loader.is_symlink():
                links.append((str(loader), str(loader.readlink())))
            else:
                wanted.append(loader)
    wanted += map(Path, SYSTEM_DATA)
    shown = list(_outermost([python, *(path.resolve() for path in wanted if path.exists())]))
    return View(
        python=str(python),
        shown=tuple(map(str, shown)),
        links=tuple((link, target) for link, target in links if not link.startswith(tuple(f"{path}/" for path in shown))),
        covered=tuple(sorted({str(found) for path in shown for found in _packages(path)})),
    )


def _base_interpreter() -> Path:
    """The interpreter itself. A virtual environment's is a link to it, or a copy that finds its library elsewhere."""
    named = Path(sys.base_prefix) / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}"
    known = getattr(sys, "_base_executable", None)
    return Path(known or named).resolve()


def _outermost(paths: list[Path]) -> Iterator[Path]:
    """Each path that lies in none of the others."""
    reached: list[Path] = []
    for path in sorted(set(paths)):
        if not any(path.is_relative_to(outer) for outer in reached):
            reached.append(path)
            yield path


def _packages(shown: Path) -> Iterator[Path]:
    """The directories of third-party packages. A link to one shows no more than what it leads to."""
    for pattern in PACKAGES:
        for found in shown.glob(pattern):
            if stat.S_ISDIR(found.lstat().st_mode):
                yield found
