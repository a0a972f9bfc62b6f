from __future__ import annotations

from judges.engines.vllm_patterns import make_searchable


def test_numba_may_be_loaded_before_vllm() -> None:
    import llvmlite.binding
    from llvmlite.binding import ffi

    make_searchable()
    make_searchable()
    assert not hasattr(ffi.lib, "__dict__")
    assert llvmlite.binding.get_process_triple()
