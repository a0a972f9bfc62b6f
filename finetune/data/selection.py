"""Selects rows to train on: a base set, and as many more from chosen domains or at random.

Source: QualEval, section 4.4 and appendix A.2: 250 rows, and 250 more from N domains, up to 3, 250/N from each. The control
adds 250 at random.
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
    """Row numbers, in the order they were drawn.

    Attributes:
        base: Rows that both models are trained on.
        targeted: Rows added from the chosen domains, domain by domain.
        control: Rows added at random instead.
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

    ``added`` rows are divided among the domains as evenly as possible: the first ones get one more. A row with several of the
    domains is drawn for one of them. The control is drawn from all rows outside the base, so it may hold targeted rows too.

    Args:
        chosen: ``(N, k)`` domains of each row that may be drawn; -1 for none.
        domains: One to three domains to add rows from.
        names: Of all domains, for messages.
        base: Rows of the base set.
        added: Rows that are added.
        seed: Seeds the draws. The base and the control of a seed are the same for all domains.

    Raises:
        MagistrateError: There are too few rows, in all or of a domain, or ``domains`` has too many, none or duplicates.
    """
    if not 1 <= len(domains) <= MOST_DOMAINS or len(set(domains)) != len(domains):
        raise MagistrateError(f"give from 1 to {MOST_DOMAINS} domains, each once")
    if len(chosen) < base + added:
        raise MagistrateError(f"{base} rows and {added} more cannot be drawn from {len(chosen):,}")
    chance = np.random.default_rng(seed)
    order = chance.permutation(len(chosen))
    first, rest = order[:base], order[base:]
    control = chance.permutation(rest)[:added]
    # A stream for each choice of domains, so that the rows of one do not depend on another's.
    shuffled = np.random.default_rng([seed, *domains]).permutation(rest)
    return Selection(first, _targeted(chosen, domains, shuffled, added, names), control)


def shares(added: int, domains: int) -> list[int]:
    """Divide rows among domains."""
    each, more = divmod(added, domains)
    return [each + (number < more) for number in range(domains)]


def _targeted(
    chosen: NDArray[np.integer], domains: Sequence[int], rows: NDArray[np.int64], added: int, names: Sequence[str]
) -> NDArray[np.int64]:
    """Match places to rows, so that rows with several of the domains go where they are needed."""
    wanted = shares(added, len(domains))
    has = [np.flatnonzero((chosen[rows] == domain).any(axis=1)) for domain in domains]
    starts = np.concatenate([[0], np.cumsum(wanted)])
    # Every place of a domain is offered every row of the domain, in the same random order.
    places = np.concatenate([np.repeat(np.arange(starts[n], starts[n + 1]), len(fitting)) for n, fitting in enumerate(has)])
    offered = np.concatenate([np.tile(fitting, wanted[n]) for n, fitting in enumerate(has)])
    graph = coo_array((np.ones(len(places), np.int8), (places, offered)), shape=(added, len(rows))).tocsr()
    matched = maximum_bipartite_matching(graph, perm_type="column")
    if (matched < 0).any():
        counts = ", ".join(
            f"`{names[domain]}` has {len(fitting):,}, needs {count}"
            for domain, fitting, count in zip(domains, has, wanted, strict=True)
        )
        raise MagistrateError(
            f"there are too few rows outside the base set: {counts}, and a row with several of them counts once; give more rows, "
            "choose other domains, or add fewer"
        )
    selected: NDArray[np.int64] = rows[matched]
    return selected


def weakest(
    proficiency: Sequence[float], counts: Sequence[int], how_many: int, *, names: Sequence[str], enough: int
) -> list[int]:
    """Choose the domains that a model is worst in, the worst first.

    Args:
        proficiency: ``(M,)`` of each domain; NaN if it was not measured.
        counts: ``(M,)`` rows of each that could be added.
        how_many: Domains to choose.
        names: Names of the domains.
        enough: Least rows of a chosen domain.

    Raises:
        MagistrateError: Too few domains have enough rows.
    """
    fit = [n for n, value in enumerate(proficiency) if not np.isnan(value) and counts[n] >= enough]
    if len(fit) < how_many:
        sizes = ", ".join(f"`{name}` {count:,}" for name, count in zip(names, counts, strict=True))
        raise MagistrateError(f"{how_many} domains with {enough} rows or more are needed, but {len(fit)} have them ({sizes})")
    return sorted(fit, key=lambda n: (proficiency[n], n))[:how_many]
