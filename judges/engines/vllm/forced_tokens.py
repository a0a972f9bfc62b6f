"""Has vLLM compute forced tokens in one step instead of a step each.

A score-only answer of LLM-Eval has 25 tokens, of which 4 are choices: the constraint forces the others. The scheduler writes the
forced tokens as drafts, as if a small model had guessed them, and vLLM's speculative decoding computes them all in one step and
keeps those that the model itself would have chosen among the legal ones. A draft that it would have spelled otherwise costs a
step, and never changes an answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from vllm.v1.structured_output.backend_guidance import GuidanceGrammar
from vllm.v1.structured_output.backend_xgrammar import XgrammarGrammar

from judges.engines.vllm.pattern_states import PatternGrammar
from judges.engines.vllm.settings import drafts_forced_tokens
from judges.engines.vocabulary import Speller
from judges.errors import EngineError


class NoProposer:
    """A proposer of drafts that proposes none, because the scheduler writes them."""

    def __init__(self, config: Any) -> None:
        pass

    def load_model(self, *args: Any, **options: Any) -> None:
        """Load nothing."""

    def propose(self, sampled: Sequence[object], *args: Any, **options: Any) -> list[list[int]]:
        """Propose nothing for each answer."""
        return [[] for _ in sampled]


class ForcedTokens:
    """A scheduler that adds the forced tokens of an answer to the step in which the token before them is computed.

    The prompt's step has the forced beginning. Only greedy answers get drafts, since a drawn one would take other random numbers,
    and only those that the constraint alone shapes.
    """

    requests: dict[str, Any]
    vllm_config: Any
    scheduler_config: Any
    structured_output_manager: Any
    num_spec_tokens: int
    num_lookahead_tokens: int
    max_num_scheduled_tokens: int
    max_model_len: int

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        manager = self.structured_output_manager
        self._masks_of_vllm, manager.grammar_bitmask = manager.grammar_bitmask, self._masks
        self._legal: list[Any] | None = None
        # A reasoning parser of vLLM's puts the constraint off, and nothing is forced until then.
        self._forces = drafts_forced_tokens(self.vllm_config) and manager.reasoner_cls is None
        if self._forces:
            self.num_lookahead_tokens = self.num_spec_tokens  # memory for the drafts is reserved with that for the step
            self._most_tokens = self.scheduler_config.max_num_batched_tokens
            if self.scheduler_config.enable_chunked_prefill:  # leave room for drafts
                drafts = self.num_spec_tokens * self.scheduler_config.max_num_seqs
                self.max_num_scheduled_tokens -= min(drafts, self._most_tokens // 2)

    def _update_after_schedule(self, output: Any) -> None:
        if self._forces:
            self._add_drafts(output)
        super()._update_after_schedule(output)  # type: ignore[misc]

    def _add_drafts(self, output: Any) -> None:
        """Add drafts to a step. ``output.columns`` lists the tokens that are legal in it, where they are few."""
        legal: list[Any] = []
        for key, count in output.num_scheduled_tokens.items():
            placeholders = output.scheduled_spec_decode_tokens.pop(key, ())
            count -= len(placeholders)
            request = self.requests[key]
            drafts: list[int] = []
            if request.num_computed_tokens + count >= request.num_tokens:  # otherwise a part of a prompt
                grammar = _grammar_of(request)
                room = self._most_tokens - output.total_num_scheduled_tokens + len(placeholders)
                drafts = self._drafts(request, grammar, room)
                known = isinstance(grammar, PatternGrammar)
                legal += grammar.states.forced(grammar.state).legal[: len(drafts) + 1] if known else (None,)
            if drafts:
                output.scheduled_spec_decode_tokens[key] = drafts
            output.num_scheduled_tokens[key] = count + len(drafts)
            output.total_num_scheduled_tokens += len(drafts) - len(placeholders)
        few = bool(legal) and all(tokens is not None for tokens in legal)
        output.columns = np.unique(np.concatenate(legal)) if few else None

    def _drafts(self, request: Any, grammar: Any, room: int) -> list[int]:
        """The forced tokens of a request, as many as there is room for."""
        if grammar is None:
            return []
        return list(self._forced(grammar)[: max(min(room, self.num_spec_tokens, self._left(request) - 1), 0)])

    def _left(self, request: Any) -> int:
        """The number of tokens that an answer has room for."""
        return int(min(self.max_model_len - request.num_tokens, request.max_tokens - request.num_output_tokens))

    def _forced(self, grammar: Any) -> Sequence[int]:
        if isinstance(grammar, PatternGrammar):
            return grammar.states.forced(grammar.state).tokens
        tokens = self._encode(_forced_bytes(grammar))[: self.num_spec_tokens]
        return list(grammar.validate_tokens(tokens))  # a draft that is not legal would end guidance's constraint

    @cached_property
    def _encode(self) -> Callable[[bytes], list[int]]:
        try:
            return lru_cache(1024)(Speller(self.structured_output_manager.tokenizer).encode)
        except EngineError:  # a tokenizer whose tokens have no known bytes
            return lambda text: []

    def get_grammar_bitmask(self, scheduler_output: Any) -> Any:
        """Constrain a step. ``scheduler_output.legal`` lists what the masks do, where it is known."""
        output = super().get_grammar_bitmask(scheduler_output)  # type: ignore[misc]
        scheduler_output.legal, self._legal = self._legal, None
        return output

    def _masks(self, requests: Mapping[str, Any], keys: Sequence[str], drafts: Mapping[str, Sequence[int]]) -> Any:
        """The masks of the next tokens, a row for each draft of a request, and one more."""
        grammars = [requests[key].structured_output_request.grammar for key in keys]
        follow = self._forces or not drafts  # the drafts of another proposer leave the forced text
        if (
            not follow
            or self.structured_output_manager.reasoner_cls is not None
            or not all(isinstance(grammar, PatternGrammar) and not grammar.is_terminated() for grammar in grammars)
        ):
            return self._masks_of_vllm(requests, keys, drafts)
        forced = [grammar.states.forced(grammar.state) for grammar in grammars]
        counts = [1 + len(drafts.get(key, ())) for key in keys]
        self._legal = [legal for one, count in zip(forced, counts, strict=True) for legal in one.legal[:count]]
        return np.concatenate([one.masks[:count] for one, count in zip(forced, counts, strict=True)])

    def _update_request_with_output(self, request: Any, new_token_ids: list[int], *args: Any, **options: Any) -> Any:
        """End an answer whose rest is forced, instead of computing it."""
        tokens, stopped = super()._update_request_with_output(request, new_token_ids, *args, **options)  # type: ignore[misc]
        if not stopped and self._forces and (ending := self._ending(request, tokens)):
            more, stopped = super()._update_request_with_output(request, ending, *args, **options)  # type: ignore[misc]
            tokens = tokens + more
        return tokens, stopped

    def _ending(self, request: Any, tokens: list[int]) -> list[int]:
        """The tokens that end an answer after ``tokens``, if they are forced and known in number.

        An answer that has no room for them is computed: where it is cut off depends on how the model spells it.
        """
        grammar, params = _grammar_of(request), request.sampling_params
        if not isinstance(grammar, PatternGrammar):
            return []
        accepted = grammar.validate_tokens(tokens, advance=True)
        ending = grammar.states.forced(grammar.state).ending
        grammar.rollback(len(accepted))
        fits = len(ending) <= self._left(request)
        ends = fits and len(accepted) == len(tokens) and params.eos_token_id == grammar.states.end
        return list(ending) if ends else []


def _forced_bytes(grammar: Any) -> bytes:
    """The text that a constraint of xgrammar or guidance forces."""
    if isinstance(grammar, GuidanceGrammar):
        return bytes(grammar.ll_matcher.compute_ff_bytes())
    if not isinstance(grammar, XgrammarGrammar):
        return b""
    try:
        return str(grammar.matcher.find_jump_forward_string()).encode()
    except UnicodeDecodeError:  # it begins inside a character
        return b""


def _grammar_of(request: Any) -> Any:
    """The constraint of a plain greedy answer that has not ended; ``None`` if it has none."""
    if not request.use_structured_output or not _is_plain(request.sampling_params):
        return None
    grammar = request.structured_output_request.grammar
    grammar = getattr(grammar, "_grammar", grammar)  # that within its budget of time
    return None if grammar.is_terminated() else grammar


def _is_plain(params: Any) -> bool:
    """Whether each token is the likeliest legal one, and nothing but the token is asked for."""
    shaped = params.presence_penalty or params.frequency_penalty or params.repetition_penalty != 1 or params.min_tokens
    shaped = shaped or params.logit_bias or params.bad_words or params.allowed_token_ids or params.thinking_token_budget
    shaped = shaped or params.repetition_detection
    asked = (params.logprobs, params.prompt_logprobs, params.logprob_token_ids)
    return params.temperature == 0 and not shaped and asked == (None, None, None)
