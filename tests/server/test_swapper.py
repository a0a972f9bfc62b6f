from __future__ import annotations

import asyncio
import time

from server.hosting.swapper import ModelSwapper


class Player:
    """A model that takes a moment to wake, and notices if it is asked while it rests."""

    def __init__(self, name: str, swapper: ModelSwapper, log: list[str]) -> None:
        self.name = name
        self.swapper = swapper
        self.log = log
        self.awake = False

    async def swap_in(self) -> None:
        await asyncio.sleep(0.01)
        self.awake = True
        self.log.append(f"{self.name} wakes")

    async def swap_out(self) -> None:
        self.awake = False
        self.log.append(f"{self.name} rests")
        await asyncio.sleep(0.01)

    async def answer(self, *, urgent: bool, seconds: float = 0.01) -> float:
        began = time.monotonic()
        async with self.swapper.in_memory(self, urgent=urgent):
            assert self.awake
            await asyncio.sleep(seconds)
            assert self.awake, "it was put to rest under an answer"
        return time.monotonic() - began


def players(swapper: ModelSwapper) -> tuple[Player, Player, list[str]]:
    log: list[str] = []
    return Player("a", swapper, log), Player("b", swapper, log), log


def test_bulk_of_two_models_takes_one_swap() -> None:
    async def play() -> tuple[int, list[str]]:
        swapper = ModelSwapper(turn=60, short_turn=60)
        a, b, log = players(swapper)
        window = asyncio.Semaphore(8)

        async def line(player: Player) -> None:
            async with window:
                await player.answer(urgent=False)

        # Lines of a go on coming while b waits: b has its turn when they end.
        await asyncio.gather(*(line(a) for _ in range(100)), *(b.answer(urgent=False) for _ in range(50)))
        await swapper.close()
        return swapper.swaps, log

    swaps, log = asyncio.run(play())
    assert swaps == 1
    assert log == ["a wakes", "a rests", "b wakes"]


def test_who_waits_is_not_kept_waiting_by_bulk() -> None:
    async def play() -> tuple[float, int]:
        swapper = ModelSwapper(turn=60, short_turn=0.1)
        a, b, _ = players(swapper)
        end = time.monotonic() + 1.0

        async def bulk() -> None:
            while time.monotonic() < end:
                await a.answer(urgent=False)

        lines = [asyncio.create_task(bulk()) for _ in range(8)]
        await asyncio.sleep(0.2)
        waited = await b.answer(urgent=True)
        await asyncio.gather(*lines)
        await swapper.close()
        return waited, swapper.swaps

    waited, swaps = asyncio.run(play())
    assert waited < 0.5
    assert swaps == 2, "b came on, and a came back"


def test_bulk_waits_no_longer_than_a_turn() -> None:
    async def play() -> float:
        swapper = ModelSwapper(turn=0.2, short_turn=0.05)
        a, b, _ = players(swapper)
        going = True

        async def bulk() -> None:
            while going:
                await a.answer(urgent=False)

        lines = [asyncio.create_task(bulk()) for _ in range(4)]
        await asyncio.sleep(0.05)
        waited = await b.answer(urgent=False)
        going = False
        await asyncio.gather(*lines)
        await swapper.close()
        return waited

    assert 0.1 < asyncio.run(play()) < 1.0


def test_calls_for_two_models_do_not_swap_at_each_answer() -> None:
    async def play() -> int:
        swapper = ModelSwapper(turn=60, short_turn=0.2)
        a, b, _ = players(swapper)
        end = time.monotonic() + 1.0

        async def calls(player: Player) -> int:
            answered = 0
            while time.monotonic() < end:
                await player.answer(urgent=True)
                answered += 1
            return answered

        answered = await asyncio.gather(calls(a), calls(b))
        await swapper.close()
        assert min(answered) > 5
        return swapper.swaps

    assert asyncio.run(play()) <= 6


def test_a_caller_who_leaves_the_queue_leaves_nothing_behind() -> None:
    async def play() -> list[str]:
        swapper = ModelSwapper(turn=60, short_turn=0.05)
        a, b, log = players(swapper)
        async with swapper.in_memory(a, urgent=True):
            waiting = asyncio.create_task(b.answer(urgent=True))
            await asyncio.sleep(0.01)
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
            await asyncio.sleep(0.1)
        await a.answer(urgent=False)
        await swapper.close()
        return log

    assert asyncio.run(play()) == ["a wakes"]
