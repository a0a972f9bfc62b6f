"""What is wrong with a file that a model describes, in words."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field

from judges.data.described import described, read_toml
from judges.errors import MagistrateError


class Part(BaseModel):
    model_config = ConfigDict(extra="forbid")

    size: int = Field(1, ge=1, le=9)
    share: float = Field(0.5, gt=0, lt=1)
    on: bool = True


class File(BaseModel):
    model_config = ConfigDict(extra="forbid")

    name: str
    kind: Literal["a", "b"] = "a"
    part: list[Part] = []
    whole: Part | None = None


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("", "name: is missing"),
        ("name = 1", "name: must be a text, not 1"),
        ("naem = 1", "naem: is unknown; it may have name, kind, part, whole"),
        ('name = "x"\nkind = "c"', "kind: must be 'a' or 'b', not 'c'"),
        ('name = "x"\n[[part]]\n[[part]]\nsize = 0', "part.2.size: must be at least 1, not 0"),
        ('name = "x"\n[[part]]\nsize = 10', "part.1.size: must be at most 9, not 10"),
        ('name = "x"\n[[part]]\nsize = "many"', "part.1.size: must be a whole number, not 'many'"),
        ('name = "x"\n[[part]]\nshare = 0', "part.1.share: must be above 0, not 0"),
        ('name = "x"\n[[part]]\nshare = 1.0', "part.1.share: must be below 1, not 1.0"),
        ('name = "x"\n[[part]]\non = "maybe"', "part.1.on: must be true or false, not 'maybe'"),
        ('name = "x"\n[[part]]\nsiez = 1', "part.1.siez: is unknown; it may have size, share, on"),
        ('name = "x"\n[whole]\nsiez = 1', "whole.siez: is unknown; it may have size, share, on"),
        ('name = "x"\npart = 1', "part: must be a list, not 1"),
    ],
)
def test_the_first_fault_names_the_key_what_it_may_be_and_what_it_is(tmp_path: Path, content: str, complaint: str) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(content)
    with pytest.raises(MagistrateError) as raised:
        described(File, read_toml(path, "a thing"), path)
    assert str(raised.value) == f"{path}: {complaint}"


def test_a_file_that_cannot_be_read_is_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    with pytest.raises(MagistrateError, match=r"mine.toml: there is no such file"):
        read_toml(path, "a thing")
    path.write_text("name =")
    with pytest.raises(MagistrateError, match=r"mine.toml cannot be read as a thing: "):
        read_toml(path, "a thing")
    with pytest.raises(MagistrateError, match="is a folder; give a file"):
        read_toml(tmp_path, "a thing")
