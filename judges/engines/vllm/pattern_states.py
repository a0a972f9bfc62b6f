"""Follows patterns over a vocabulary for vLLM, and finds out once for each state what is the same for all answers.

vLLM asks at each step which tokens are legal. Outlines' own guide writes that down anew each time, which takes 220 us in free
text over 128,000 tokens. All answers to one pattern share its states, so the mask of a state is kept, and so is the text that the
pattern forces from there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from vllm.v1.structured_output.backend_types import StructuredOutputGrammar

from judges.engines.vocabulary import Speller

if TYPE_CHECKING:
    from outlines_core import Index

Masks = NDArray[np.int32]
Ints = NDArray[np.int64]

MOST_MASKS = 512
"""Maximum number of masks kept for a pattern: 8 MiB with 128,000 tokens."""

FEW = 1024
"""Number of legal tokens above which they are not listed."""

LONGEST = 128
"""Bytes after which a forced text is cut."""


@dataclass(frozen=True, slots=True)
class Forced:
    """What a pattern forces from a state on.

    Attributes:
        tokens: Tokens of the forced text, as the tokenizer encodes it, up to one beside which a token is legal that goes beyond
            the text; empty if nothing is forced.
        ending: The same with the end of text, if the pattern forces an answer to its end and every spelling of that has as many
            tokens; else empty.
        masks: Bits of the tokens that are legal at each of ``tokens`` and behind them, 32 to a word, the lowest first.
        legal: Those tokens; ``None`` where they are more than ``FEW``.
    """

    tokens: tuple[int, ...]
    ending: tuple[int, ...]
    masks: Masks
    legal: tuple[Ints | None, ...]


@dataclass(slots=True)
class _Place:
    """A place in a text at which a token begins.

    Attributes:
        text: The text from there on.
        state: The pattern's state.
        counts: The numbers of tokens in which the text before it can be spelled.
        reach: The place behind the longest legal token.
    """

    text: bytes
    state: int
    counts: set[int]
    reach: int = 0


class PatternStates:
    """The states of a compiled pattern.

    Args:
        index: The pattern, compiled for the vocabulary.
        width: Number of tokens that the model computes logits for.
        end: Id of the end of text.
        speller: Knows the tokens' bytes.
    """

    def __init__(self, index: Index, width: int, end: int, speller: Speller) -> None:
        self.index = index
        self.start: int = index.get_initial_state()
        self.end = end
        self.next: Callable[[int, int], int | None] = index.get_next_state
        self.is_final: Callable[[int], bool] = index.is_final_state
        self._legal: Callable[[int], list[int]] = index.get_allowed_tokens
        self._words = (width + 31) // 32
        self._spell = speller.bytes_of
        self._encode = speller.encode
        self._forced: dict[int, Forced] = {}
        self._kept = 0
        self._few: dict[int, Ints | None] = {}

    def forced(self, state: int) -> Forced:
        """What the pattern forces from a state on."""
        found = self._forced.get(state)
        if found is None:
            found = self._find_forced(state)
            self._kept += len(found.masks)
            if self._kept > MOST_MASKS:
                self._forced.clear()
                self._kept = len(found.masks)
            self._forced[state] = found
        return found

    def _find_forced(self, state: int) -> Forced:
        places, length = self._places(state, self._likely_text(state))
        text = places[0].text[:length]
        tokens, path = self._path(places, self._encode(text) if text else (), length)
        last = places.get(length)
        ends = last is not None and self._ends(last.state) and last.counts == {len(tokens)}
        masks = np.stack([self._mask(place) for place in path])
        return Forced(tokens, (*tokens, self.end) if ends else (), masks, tuple(map(self._legal_if_few, path)))

    def _mask(self, state: int) -> Masks:
        bits = np.zeros(self._words * 32, np.uint8)
        bits[self._legal(state)] = 1
        return np.packbits(bits, bitorder="little").view(np.int32)

    def _likely_text(self, state: int) -> bytes:
        """A text that begins with the forced one: the longest legal tokens, as long as all others spell beginnings of them."""
        text = b""
        while len(text) < LONGEST and (legal := self._few_of(state)) and self.end not in legal:
            longest = max(legal, key=lambda token: len(self._spell(token)))
            spelt, following = self._spell(longest), self.next(state, longest)
            if following is None or not all(spelt.startswith(self._spell(token)) for token in legal):
                break
            text, state = text + spelt, following
        return text

    def _places(self, state: int, text: bytes) -> tuple[dict[int, _Place], int]:
        """The places in a text at which its tokens begin, and the number of its bytes that are forced."""
        places = {0: _Place(text, state, {0})}
        forced = len(text)
        for number in range(len(text)):
            if (place := places.get(number)) is None:
                continue
            legal = self._few_of(place.state)
            if not legal or self.end in legal:
                return places, min(forced, number)
            for token in legal:
                spelt = self._spell(token)
                shared = _shared(spelt, place.text)
                place.reach = max(place.reach, number + len(spelt))
                following = self.next(place.state, token)
                if shared < min(len(spelt), len(place.text)):
                    forced = min(forced, number + shared)
                elif shared == len(spelt) and following is not None:
                    behind = places.setdefault(number + shared, _Place(place.text[shared:], following, set()))
                    behind.counts |= {count + 1 for count in place.counts}
        return places, forced

    def _legal_if_few(self, state: int) -> Ints | None:
        if state not in self._few:
            legal = self._legal(state)
            self._few[state] = np.array(sorted(legal), np.int64) if len(legal) <= FEW else None
        return self._few[state]

    def _few_of(self, state: int) -> list[int]:
        """The legal tokens; empty if there are many."""
        few = self._legal_if_few(state)
        return [] if few is None else few.tolist()

    def _ends(self, state: int) -> bool:
        """Whether an answer must end here."""
        return self._few_of(state) == [self.end]

    def _path(self, places: Mapping[int, _Place], tokens: Sequence[int], forced: int) -> tuple[tuple[int, ...], list[int]]:
        """The tokens up to the first that is not legal or has a choice beside it, and the states before each and behind them."""
        number, path = 0, [places[0].state]
        for token in tokens:
            following = self.next(path[-1], token)
            if following is None or places[number].reach > forced:
                break
            path.append(following)
            number += len(self._spell(token))
        return tuple(tokens[: len(path) - 1]), path


def _shared(first: bytes, second: bytes) -> int:
    """The number of bytes with which two texts begin alike."""
    pairs = enumerate(zip(first, second, strict=False))
    return next((place for place, (one, other) in pairs if one != other), min(len(first), len(second)))


class PatternGrammar(StructuredOutputGrammar):  # type: ignore[misc]
    """Where one answer is in its pattern."""

    def __init__(self, states: PatternStates) -> None:
        self.states = states
        self._path = [states.start]
        self._ended = False

    @property
    def state(self) -> int:
        """The state behind the tokens accepted so far."""
        return self._path[-1]

    def accept_tokens(self, request_id: str, tokens: list[int]) -> bool:
        """Advance by tokens, up to the end of text. ``False`` if one is not legal, which leaves the state as it was."""
        accepted = len(self.validate_tokens(tokens, advance=True))
        if accepted == len(tokens) or self._ended:
            return True
        self.rollback(accepted)
        return False

    def validate_tokens(self, tokens: list[int], *, advance: bool = False) -> list[int]:
        """The tokens up to the first that is not legal, or to the end of text."""
        count = 0
        while count < len(tokens) and not self._ended:
            token = tokens[count]
            if token == self.states.end:
                if not self.states.is_final(self.state):
                    break
                self._ended = True
            else:
                following = self.states.next(self.state, token)
                if following is None:
                    break
                self._path.append(following)
            count += 1
        if not advance:
            self.rollback(count)
        return tokens[:count]

    def rollback(self, num_tokens: int) -> None:
        """Go back by so many tokens."""
        if num_tokens and self._ended:
            self._ended = False
            num_tokens -= 1
        if num_tokens:
            del self._path[-num_tokens:]

    def fill_bitmask(self, bitmask: Any, batch_index: int) -> None:
        """Mark the legal next tokens."""
        bitmask.numpy()[batch_index] = self.states.forced(self.state).masks[0]

    def is_terminated(self) -> bool:
        return self._ended

    def reset(self) -> None:
        del self._path[1:]
        self._ended = False
