"""Rows put together so that little of a batch is left empty."""

from __future__ import annotations

from collections.abc import Sequence


def pack(lengths: Sequence[int], capacity: int) -> list[list[int]]:
    """Best fit, the longest first: each row goes where it leaves the least room, or into a new pack.

    Takes time in proportion to the number of rows times the capacity over 64.

    Args:
        lengths: Tokens of each row, from 1 to the capacity.
        capacity: Tokens of a pack.

    Returns:
        Packs of row numbers. Every row is in one.

    Raises:
        ValueError: A row fits no pack.
    """
    packs: list[list[int]] = []
    with_room: list[list[int]] = [[] for _ in range(capacity + 1)]
    rooms = 0  # bit r is set where some pack has room for r tokens, so the least room that does is one shift away
    for number in sorted(range(len(lengths)), key=lambda number: -lengths[number]):
        length = lengths[number]
        if not 0 < length <= capacity:
            raise ValueError(f"row {number} of {length} tokens fits no pack of {capacity}")
        fitting = rooms >> length
        if fitting:
            room = length + (fitting & -fitting).bit_length() - 1
            place = with_room[room].pop()
            if not with_room[room]:
                rooms ^= 1 << room
        else:
            room, place = capacity, len(packs)
            packs.append([])
        packs[place].append(number)
        left = room - length
        if left:
            with_room[left].append(place)
            rooms |= 1 << left
    return packs


def efficiency(lengths: Sequence[int], packs: Sequence[Sequence[int]], capacity: int) -> float:
    """Share of the packs' room that rows take, from 0 to 1."""
    return sum(lengths) / (len(packs) * capacity) if packs else 0.0
