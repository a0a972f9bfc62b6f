"""The process of ``judges.engines.gguf``: it writes a GGUF file as a model's folder, and checks what transformers makes of it.

It takes the file, the folder and its parent's id. Its last line of output is why a file is refused.
"""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from judges.engines.chat import ChatTokenizer
from judges.engines.gguf import REFUSED, UNWRITTEN
from judges.engines.kept import check_room
from judges.engines.own_session import end_with
from judges.engines.vocabulary import misread
from judges.errors import EngineError, reason_of

BYTES = 2
"""Bytes of a number in bfloat16, in which engines compute, and in which a model's folder takes half the room of float32."""

GPT_2_SPLITS = {"gpt-2", "phi-2", "jina-es", "jina-de", "mpt", "olmo", "jais", "modern-bert"}
"""Names of GPT-2's rules of splitting text before byte pairs are merged, which transformers takes for any name unknown to it."""

DIGIT_SPLITS = {"smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b"}
"""Names of the same rules after every digit stands alone."""

WHOLE_WORDS = {"llama3", "llama-v3", "llama-bpe", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2", "tekken"}
"""Names of rules by which a word that is a token is taken whole, whatever pairs of bytes it is merged from."""

ROLES = {"bos_token": "bos", "eos_token": "eos", "unk_token": "unknown", "pad_token": "padding"}
"""Special tokens as transformers and as GGUF call them."""

ROPE_FACTORS = "rope_freqs.weight"
"""Name of the tensor by which llama.cpp stretches the rotary frequencies of Llama 3.1 and later; transformers leaves it out."""


NAME = "model.gguf"
"""Name under which transformers is given the file."""

ANOTHER = "give the model's own folder, or a repository of the hub"
"""What to do with a file that is refused."""

Facts = Mapping[str, Any]
"""A file's metadata."""


def convert(file: Path, folder: Path) -> None:
    """Write the model of a GGUF file to an empty folder.

    Raises:
        EngineError: The file is damaged, or of a kind that is not converted faithfully. The message completes "FILE ...".
        OSError: The disk is full.
    """
    source = folder / "source"  # transformers reads the files beside the one that it is given
    source.mkdir()
    link = source / NAME
    link.symlink_to(file.resolve())
    with _read_once():
        reader = _read(link)
        facts = {name: field.contents() for name, field in reader.fields.items()}
        _check_kind(reader, facts)
        check_room(folder, BYTES * sum(tensor.n_elements for tensor in reader.tensors))
        config = _config(source, reader, facts)
        config.save_pretrained(folder)
        _tokenizer(source, facts).save_pretrained(folder)
        _check_tokens(_loaded_tokenizer(folder), facts)
        _model(source, config, reader).save_pretrained(folder)
    link.unlink()
    source.rmdir()


@contextmanager
def _read_once() -> Iterator[None]:
    """Keep what the library ``gguf`` has read: transformers reads the metadata three times, and its names once a layer."""
    import gguf

    class Reader(gguf.GGUFReader):
        @property
        def data(self) -> Any:
            return self._bytes

        @data.setter
        def data(self, mapped: Any) -> None:
            self._bytes = mapped.view(type(mapped).__base__)  # slices of a memory map are three times as slow

    originals = gguf.GGUFReader, gguf.get_tensor_name_map
    gguf.GGUFReader, gguf.get_tensor_name_map = cache(lambda path: Reader(str(path))), cache(originals[1])
    try:
        yield
    finally:
        gguf.GGUFReader, gguf.get_tensor_name_map = originals


def _read(file: Path) -> Any:
    import gguf

    try:
        return gguf.GGUFReader(str(file))
    except (KeyError, ValueError, IndexError, OverflowError, MemoryError) as error:
        if "GGMLQuantizationType" in str(error):
            raise EngineError(
                f"holds weights of a kind that gguf {version('gguf')} does not know ({error}); {ANOTHER}"
            ) from error
        if "appears to be version" in str(error):
            raise EngineError(f"is of a version of GGUF that gguf {version('gguf')} does not read; {ANOTHER}") from error
        raise EngineError(f"is damaged or cut off ({reason_of(error)}); fetch it again") from error


def _check_kind(reader: Any, facts: Facts) -> None:
    if facts.get("split.count", 1) > 1:
        raise EngineError(f"is one of {facts['split.count']} parts; join them with llama.cpp's `llama-gguf-split --merge`")
    if "general.architecture" not in facts or not reader.tensors:
        raise EngineError("holds no language model: it has no architecture or no weights")
    if "tokenizer.ggml.tokens" not in facts:
        raise EngineError("holds no tokenizer; give the model's folder instead")
    scaling = [facts[name] for name in facts if name.endswith(".rope.scaling.type")]
    names = {tensor.name for tensor in reader.tensors}
    if any(kind != "none" for kind in scaling) or any(name.startswith("rope_factors") for name in names):
        raise EngineError(f"stretches its rotary frequencies by rules that are not converted; {ANOTHER}")
    _check_architecture(reader, facts)
    if len(facts.get("tokenizer.ggml.token_type", ())) != len(facts["tokenizer.ggml.tokens"]):
        raise EngineError(f"does not say of each token whether it is special; {ANOTHER}")
    _check_weights(reader.tensors)


def _check_architecture(reader: Any, facts: Facts) -> None:
    """Check what transformers would guess: the context, the norms' epsilon and the number of layers."""
    architecture = facts["general.architecture"]
    if not facts.get(f"{architecture}.context_length"):
        raise EngineError(f"does not say how long its context is (`{architecture}.context_length`); {ANOTHER}")
    if not any(name.startswith(f"{architecture}.attention.layer_norm") and name.endswith("epsilon") for name in facts):
        raise EngineError(
            f"does not name the epsilon of its norms (`{architecture}.attention.layer_norm_rms_epsilon`); {ANOTHER}"
        )
    if facts.get(f"{architecture}.rope.freq_base", 1) <= 0:
        raise EngineError(f"has rotary frequencies of base 0 (`{architecture}.rope.freq_base`); {ANOTHER}")
    said = facts.get(f"{architecture}.block_count")
    layers = len({tensor.name.split(".")[1] for tensor in reader.tensors if tensor.name.startswith("blk.")})
    if said != layers:
        raise EngineError(f"says that it has {said} layers and holds {layers}; {ANOTHER}")


def _check_weights(tensors: Sequence[Any]) -> None:
    import gguf

    for kind, tensor in {tensor.tensor_type: tensor for tensor in tensors}.items():
        try:
            gguf.dequantize(tensor.data[:1], kind)
        except NotImplementedError as error:
            raise EngineError(f"holds weights as {kind.name}, which gguf {version('gguf')} cannot read; {ANOTHER}") from error


def _tokenizer(source: Path, facts: Facts) -> Any:
    from transformers import AutoTokenizer

    try:
        converted = AutoTokenizer.from_pretrained(str(source), gguf_file=NAME)
    except Exception as error:  # each kind raises its own
        raise EngineError(f"holds a tokenizer that transformers cannot convert ({reason_of(error)}); {ANOTHER}") from error
    return _mended(json.loads(converted.backend_tokenizer.to_str()), facts)


def _loaded_tokenizer(folder: Path) -> Any:
    try:
        return ChatTokenizer.load(folder).tokenizer
    except EngineError as error:
        raise EngineError(str(error).removeprefix(f"{folder} ")) from error


def _mended(state: dict[str, Any], facts: Facts) -> Any:
    """The tokenizer of a state of the library ``tokenizers``, with the file's own special tokens and rules of splitting text.

    transformers adds tokens of its own beyond the last, and knows the rules of some tokenizers only.
    """
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerFast

    tokens, rules = facts["tokenizer.ggml.tokens"], facts.get("tokenizer.ggml.pre")
    state["added_tokens"] = [token for token in state["added_tokens"] if token["id"] < len(tokens)]
    if facts.get("tokenizer.ggml.model") == "gpt2":
        splits = state["pre_tokenizer"]
        if rules in DIGIT_SPLITS:
            digits = {"type": "Digits", "individual_digits": True}
            state["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [digits, splits]}
        elif splits["type"] == "ByteLevel" and rules not in GPT_2_SPLITS:
            raise EngineError(f"splits text by rules `{rules}`, which are not converted; {ANOTHER}")
        state["model"]["ignore_merges"] = rules in WHOLE_WORDS
    found = {role: facts.get(f"tokenizer.ggml.{name}_token_id") for role, name in ROLES.items()}
    special = {role: tokens[number] for role, number in found.items() if number is not None}
    if "eos_token" not in special:
        raise EngineError(f"names no token that ends a text; {ANOTHER}")
    object_ = Tokenizer.from_str(json.dumps(state))
    return PreTrainedTokenizerFast(tokenizer_object=object_, chat_template=facts.get("tokenizer.chat_template"), **special)


def _check_tokens(tokenizer: Any, facts: Facts) -> None:
    """Check that every token has its number and its bytes, and that a text begins as the file says."""
    tokens, numbers = facts["tokenizer.ggml.tokens"], tokenizer.get_vocab()
    wrong = [token for number, token in enumerate(tokens) if numbers.get(token) != number and token.strip()]
    if wrong or len(tokenizer) != len(tokens):
        example = (wrong or sorted(set(numbers) - set(tokens)))[0]
        raise EngineError(f"has tokens that transformers loses or adds, such as `{example}`; {ANOTHER}")
    dummy = facts.get("tokenizer.ggml.model") == "llama" and facts.get("tokenizer.ggml.add_space_prefix", True)
    if tokenizer.tokenize("a")[0].startswith("\u2581") != dummy:
        raise EngineError(f"begins a text {'with' if dummy else 'without'} a space, which transformers changes; {ANOTHER}")
    try:
        misspelt = misread(tokenizer)
    except EngineError as error:
        misspelt = reason_of(error)
    if misspelt:
        raise EngineError(f"has a tokenizer that is not converted: {misspelt}; {ANOTHER}")


def _config(source: Path, reader: Any, facts: Facts) -> Any:
    from transformers import AutoConfig

    try:
        config = AutoConfig.from_pretrained(str(source), gguf_file=NAME)
    except Exception as error:  # as each architecture raises its own
        said = f"architecture `{facts['general.architecture']}`: {reason_of(error)}"
        raise EngineError(f"cannot be converted by transformers {version('transformers')} ({said}); {ANOTHER}") from error
    for tensor in reader.tensors:
        if tensor.name == ROPE_FACTORS:
            config.rope_parameters = _llama_3_rope(config, tensor.data)
    return config


def _model(source: Path, config: Any, reader: Any) -> Any:
    import torch
    from transformers import AutoModelForCausalLM, GgufConfig

    try:
        model, loaded = AutoModelForCausalLM.from_pretrained(
            str(source),
            config=config,
            gguf_file=NAME,
            quantization_config=GgufConfig(gguf_file=NAME, dequantize=True),
            dtype=torch.bfloat16,
            output_loading_info=True,
        )
    except Exception as error:  # as each architecture raises its own
        raise EngineError(
            f"cannot be loaded by transformers {version('transformers')} ({reason_of(error)}); {ANOTHER}"
        ) from error
    _check_whole(model, loaded, [tensor for tensor in reader.tensors if tensor.name != ROPE_FACTORS])
    _check_numbers(model)
    return model


def _check_whole(model: Any, loaded: Mapping[str, Any], tensors: Sequence[Any]) -> None:
    """Check that every weight comes from the file, and every tensor of it is used; transformers passes over both."""
    missing = sorted(map(str, [*loaded["missing_keys"], *loaded["mismatched_keys"]]))
    if missing:
        raise EngineError(f"lacks {len(missing)} weights of its architecture, such as {missing[0]}; {ANOTHER}")
    held = sum({weight.data_ptr(): weight.numel() for weight in model.state_dict().values()}.values())
    given = sum(tensor.n_elements for tensor in tensors)
    if held != given:
        raise EngineError(f"holds {given:,} numbers, of which transformers takes {held:,}; {ANOTHER}")


def _check_numbers(model: Any) -> None:
    """Check that weights and logits are numbers: of what is not a number, greedy decoding makes a score."""
    import torch

    held = tuple(model.get_input_embeddings().weight.shape)
    if held != (model.config.vocab_size, model.config.hidden_size):
        raise EngineError(
            f"has an embedding of {held[0]:,} by {held[1]:,} and says {model.config.vocab_size:,} by {model.config.hidden_size:,}"
        )
    try:
        with torch.inference_mode():
            finite = all(weight.isfinite().all() for weight in model.parameters())
            finite = finite and bool(model(torch.tensor([[0, 1, 2, 3]])).logits.isfinite().all())
    except (RuntimeError, IndexError, ValueError) as error:
        raise EngineError(f"has weights of shapes that do not fit each other ({reason_of(error)}); {ANOTHER}") from error
    if not finite:
        raise EngineError("holds or computes values that are not numbers; fetch it again")


def _llama_3_rope(config: Any, factors: Any) -> dict[str, Any]:
    """Find the parameters of Llama 3.1's rotary frequencies by the factors that they divide them by, ``(head_dim / 2,)``."""
    import numpy as np

    largest = round(float(factors.max()), 3)
    found = {"factor": largest, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}
    theta = float(config.rope_parameters["rope_theta"])
    turns = 8192 / (2 * math.pi * theta ** (np.arange(len(factors)) / len(factors)))
    kept = np.clip((turns - 1) / 3, 0, 1)
    if not np.allclose(factors, 1 / ((1 - kept) / largest + kept), rtol=1e-3):
        raise EngineError(f"stretches its rotary frequencies by other rules than Llama 3.1's; {ANOTHER}")
    return {"rope_type": "llama3", "rope_theta": theta, **found}


def main() -> None:
    """Convert the file named by the first argument into the folder named by the second."""
    end_with(int(sys.argv[3]))
    os.environ["HF_HUB_OFFLINE"] = "1"
    try:
        convert(Path(sys.argv[1]), Path(sys.argv[2]))
    except EngineError as error:
        print(error)
        sys.exit(REFUSED)
    except Exception as error:  # what reads and what writes has errors of its own
        if isinstance(error, OSError) or any(said in str(error).lower() for said in ("os error", "i/o error")):
            print(reason_of(error))
            sys.exit(UNWRITTEN)
        print(f"is damaged, or of a kind that is not converted ({reason_of(error)}); {ANOTHER}")
        sys.exit(REFUSED)


if __name__ == "__main__":
    main()
