"""The guide's unit of counting: each order of a pair of answers is a comparison, and pairs whose orders disagree are dropped.

Source: OpenCompass's subjective summarizer, which takes the judge's choice in both orders of a pair (``cmp_order='both'``), keeps
the pairs whose choices agree, and counts both.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evals.arena.battles import Battles


@dataclass(frozen=True, slots=True)
class Orders:
    """Battles counted by order.

    Attributes:
        battles: A battle for each comparison that is kept: two where both orders agree, one where one order is known.
        comparisons: All comparisons, of identical answers and without a choice among them.
        meaningful: Those of different answers.
        compared: Those with a choice.
        kept: Those whose two orders agree, or that have one order.
    """

    battles: Battles
    comparisons: int
    meaningful: int
    compared: int
    kept: int

    @property
    def consistency(self) -> float | None:
        """The share of comparisons that is kept; ``None`` without any."""
        return self.kept / self.compared if self.compared else None


def in_orders(battles: Battles) -> Orders:
    """Count battles by order.

    Args:
        battles: Comparisons of two answers, with the choices in both orders as far as they are known.
    """
    known = battles.orders >= 0
    both = known.all(axis=1)
    agree = both & (battles.orders[:, 0] == battles.orders[:, 1])
    single = ~both & battles.scored
    times = 2 * agree + single
    kept = np.repeat(np.arange(len(battles)), times)
    # A pair without a choice was to be compared in as many orders as the others.
    orders = np.where(both | (~single & both.any()), 2, 1)
    return Orders(
        battles.only(kept),
        comparisons=int(orders.sum()),
        meaningful=int(orders[~battles.identical].sum()),
        compared=int(2 * both.sum() + single.sum()),
        kept=len(kept),
    )
