"""The parts of a ``.eval`` file: a zip archive of JSON, deflated or compressed by Zstandard (zip's method 93)."""

from __future__ import annotations

import re
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from judges.data.files import SMALL
from judges.errors import MagistrateError, reason_of

ZSTANDARD = 93
"""Number of Zstandard among zip's methods (APPNOTE 6.3.8, section 4.4.5), which Python's ``zipfile`` knows from 3.14 on."""

LOCAL_HEADER = 30
"""Bytes before the name of a part in its own header, which end with the lengths of the name and of a further field."""

BROKEN = (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, EOFError, ValueError, OSError)
"""What a part that is damaged, encrypted or compressed in another way raises."""


def samples_in(path: Path) -> Iterator[tuple[str, bytes | ValueError]]:
    """Read the samples of a log, one at a time. No more than 64 MiB of a sample is unpacked, whatever the archive says.

    Yields:
        The name of the sample's file without folder and suffix, and its JSON, or why that cannot be read.

    Raises:
        MagistrateError: It is no zip archive, or no log of inspect_ai.
    """
    try:
        archive = zipfile.ZipFile(path)
    except BROKEN as error:
        raise MagistrateError(f"{path} is not a log of inspect_ai: {_as_clause(error)}") from None
    with archive, path.open("rb") as file:
        names = archive.NameToInfo  # a part that was written again counts as it was written last
        if not {"header.json", "_journal/start.json"} & names.keys():
            raise MagistrateError(f"{path} is a zip archive, and not a log of inspect_ai, which holds a `header.json`")
        found = ((re.fullmatch(r"samples/(.*)\.json", name, re.DOTALL), part) for name, part in names.items())
        samples = {name[1]: part for name, part in found if name}
        for name in sorted(samples, key=_order):
            yield name, _content(archive, samples[name], file)


def _order(name: str) -> tuple[int, str]:
    """Epochs one after the other, and in each the samples by id, as inspect_ai shows them. The archive has them as they ended."""
    sample, _, epoch = name.rpartition("_epoch_")
    return int(epoch) if epoch.isdecimal() and len(epoch) < 10 else 0, sample.zfill(20) if sample.isdecimal() else sample


def _content(archive: zipfile.ZipFile, part: zipfile.ZipInfo, file: IO[bytes]) -> bytes | ValueError:
    try:
        unpack = _unpacked_by_arrow if part.compress_type == ZSTANDARD else _unpacked
        content = unpack(archive, part, file)
    except BROKEN as error:
        return ValueError(f"cannot be unpacked: {_as_clause(error)}")
    if len(content) > SMALL:
        return ValueError(f"is larger than {SMALL >> 20} MiB; score it where it is: `inspect score`")
    return content


def _unpacked(archive: zipfile.ZipFile, part: zipfile.ZipInfo, file: IO[bytes]) -> bytes:
    with archive.open(part) as content:
        return content.read(SMALL + 1)


def _unpacked_by_arrow(archive: zipfile.ZipFile, part: zipfile.ZipInfo, file: IO[bytes]) -> bytes:
    import pyarrow

    if part.flag_bits & 1:
        raise ValueError("it is encrypted")
    file.seek(part.header_offset)
    header = file.read(LOCAL_HEADER)
    if header[:4] != b"PK\x03\x04" or len(header) < LOCAL_HEADER:
        raise ValueError("its header is damaged")
    file.seek(int.from_bytes(header[26:28], "little") + int.from_bytes(header[28:30], "little"), 1)
    packed = file.read(min(part.compress_size, SMALL))
    with pyarrow.CompressedInputStream(pyarrow.BufferReader(packed), "zstd") as stream:
        content: bytes = stream.read(SMALL + 1)
    if len(content) <= SMALL and zlib.crc32(content) != part.CRC:
        raise ValueError("its checksum does not fit")
    return content


def _as_clause(error: BaseException) -> str:
    words = reason_of(error)
    return words if words[1:2].isupper() else words[:1].lower() + words[1:]
