import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from judges.engines.kept import SIZES, check_room, is_whole, made_once

SLOW = """
import sys, time
from pathlib import Path
from judges.engines.kept import made_once

def make(scratch):
    for number in range(4):
        (scratch / str(number)).write_text("whole")
        time.sleep(0.1)

made_once(Path(sys.argv[1]), make)
"""


def test_a_folder_is_made_once_by_many_at_a_time(tmp_path: Path) -> None:
    made = []

    def make(scratch: Path) -> None:
        made.append(scratch)
        time.sleep(0.05)
        (scratch / "file").write_text("whole")

    with ThreadPoolExecutor(4) as pool:
        folders = set(pool.map(lambda _: made_once(tmp_path / "cache" / "a", make), range(8)))
    assert folders == {tmp_path / "cache" / "a"}
    assert len(made) == 1
    assert sorted(path.name for path in (tmp_path / "cache").iterdir()) == ["a", "a.lock"]
    assert (tmp_path / "cache" / "a" / "file").read_text() == "whole"


@pytest.mark.parametrize("written", [0, 2])
def test_a_maker_killed_at_any_moment_leaves_nothing_that_counts(tmp_path: Path, written: int) -> None:
    folder = tmp_path / "a"
    with subprocess.Popen([sys.executable, "-c", SLOW, str(folder)]) as process:
        while not list(tmp_path.glob(f"a-*.part/{written}")):
            time.sleep(0.01)
        os.kill(process.pid, signal.SIGKILL)
    assert not folder.exists()
    subprocess.run([sys.executable, "-c", SLOW, str(folder)], check=True)
    assert {path.name for path in folder.iterdir()} == {*"0123", SIZES}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "a.lock"]


@pytest.mark.parametrize("damage", ["cut off", "gone", "no sizes", "all gone"])
def test_a_folder_that_lost_something_is_made_again(tmp_path: Path, damage: str) -> None:
    folder = tmp_path / "a"

    def write(text: str, scratch: Path) -> None:
        (scratch / "file").write_text(text)

    made_once(folder, partial(write, "whole"))
    assert is_whole(folder)
    if damage == "cut off":
        (folder / "file").write_text("wh")
    elif damage == "no sizes":
        (folder / SIZES).write_text("{")
    else:
        for path in folder.iterdir():
            if damage == "all gone" or path.name != SIZES:
                path.unlink()
    assert not is_whole(folder)
    made_once(folder, partial(write, "anew"))
    assert (folder / "file").read_text() == "anew"


def test_a_maker_that_fails_leaves_nothing(tmp_path: Path) -> None:
    def make(scratch: Path) -> None:
        (scratch / "half").write_text("")
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        made_once(tmp_path / "a", make)
    assert [path.name for path in tmp_path.iterdir()] == ["a.lock"]


def test_room_that_is_lacking_is_counted(tmp_path: Path) -> None:
    check_room(tmp_path, 1)
    with pytest.raises(OSError, match=r"it takes 1048576\.0 GiB and .* GiB are free"):
        check_room(tmp_path, 1 << 50)
