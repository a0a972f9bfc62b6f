"""Which rows a model is trained on: a base set, and as many again, from chosen domains or at random.

Source: QualEval, section 4.4 and appendix A.2: 250 rows, and 250 more from up to 3 domains, 250/N from each of N. The
control adds 250 at random.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import maximum_bipartite_matching

from judges.errors import MagistrateError

BASE = 250
ADDED = 250
MOST_DOMAINS = 3


@dataclass(frozen=True, slots=True)
class Selection:
    """Row numbers, each in the order they were drawn.

    Attributes:
        base: What both models are trained on.
        targeted: What is added from the chosen domains, domain by domain.
        control: What is added at random in its place.
    """

    base: NDArray[np.int64]
    targeted: NDArray[np.int64]
    control: NDArray[np.int64]


def select(
    chosen: NDArray[np.integer],
    domains: Sequence[int],
    *,
    names: Sequence[str],
    base: int = BASE,
    added: int = ADDED,
    seed: int = 0,
) -> Selection:
    """Draw rows without replacement.

    ``added`` rows are shared out among the domains as evenly as whole numbers allow: the first ones get one more. A row that has
    several of the domains is drawn for one of them. The control is drawn from all rows beside the base, whatever their domain, so
    it may hold rows that are targeted too.

    Args:
        chosen: ``(N, k)`` the domains of each row that may be drawn; -1 for none.
        domains: Those to add from, from 1 to 3.
        names: Of all domains, for messages.
        base: Rows of the base set.
        added: Rows that are added.
        seed: Another one draws others. The base and the control of a seed are the same for all domains.

    Raises:
        MagistrateError: There are too few rows, in all or of a domain, or the domains are no choice.
    """
    if not 1 <= len(domains) <= MOST_DOMAINS or len(set(domains)) != len(domains):
        raise MagistrateError(f"give from 1 to {MOST_DOMAINS} domains, each once")
    if len(chosen) < base + added:
        raise MagistrateError(f"{base} rows and {added} more cannot be drawn from {len(chosen):,}")
    chance = np.random.default_rng(seed)
    order = chance.permutation(len(chosen))
    first, rest = order[:base], order[base:]
    control = chance.permutation(rest)[:added]
    # Another stream for each choice of domains, so that the rows of one do not hang on another's.
    shuffled = np.random.default_rng([seed, *domains]).permutation(rest)
    return Selection(first, _targeted(chosen, domains, shuffled, added, names), control)


def shares(added: int, domains: int) -> list[int]:
    """How many rows each domain gives."""
    each, more = divmod(added, domains)
    return [each + (number < more) for number in range(domains)]


def _targeted(
    chosen: NDArray[np.integer], domains: Sequence[int], rows: NDArray[np.int64], added: int, names: Sequence[str]
) -> NDArray[np.int64]:
    """Match places to rows, so that rows which have several of the domains go where they are needed."""
    wanted = shares(added, len(domains))
    has = [np.flatnonzero((chosen[rows] == domain).any(axis=1)) for domain in domains]
    starts = np.concatenate([[0], np.cumsum(wanted)])
    # Every place of a domain is offered every row that has the domain, in the same random order.
    places = np.concatenate([np.repeat(np.arange(starts[n], starts[n + 1]), len(found)) for n, found in enumerate(has)])
    offered = np.concatenate([np.tile(found, wanted[n]) for n, found in enumerate(has)])
    graph = coo_array((np.ones(len(places), np.int8), (places, offered)), shape=(added, len(rows))).tocsr()
    matched = maximum_bipartite_matching(graph, perm_type="column")
    if (matched < 0).any():
        counts = ", ".join(
            f"`{names[domain]}` has {len(found):,} and is to give {count}"
            for domain, found, count in zip(domains, has, wanted, strict=True)
        )
        raise MagistrateError(
            f"there are too few rows beside the base set: {counts}; a row that has several of them counts once. "
            "Give more rows, other domains, or add fewer"
        )
    found: NDArray[np.int64] = rows[matched]
    return found


def weakest(
    proficiency: Sequence[float], counts: Sequence[int], how_many: int, *, names: Sequence[str], enough: int
) -> list[int]:
    """The domains that a model does worst in, the worst first.

    Args:
        proficiency: Of each domain; NaN where it was not measured.
        counts: Rows that could be added, of each.
        how_many: Domains to choose.
        names: Of the domains.
        enough: Rows that a domain must have to be chosen.

    Raises:
        MagistrateError: Too few domains have rows enough.
    """
    fit = [n for n, value in enumerate(proficiency) if not np.isnan(value) and counts[n] >= enough]
    if len(fit) < how_many:
        told = ", ".join(f"`{names[n]}` {counts[n]:,}" for n in range(len(names)))
        raise MagistrateError(f"{how_many} domains with {enough} rows or more are wanted, and {len(fit)} have them ({told})")
    return sorted(fit, key=lambda n: (proficiency[n], n))[:how_many]
