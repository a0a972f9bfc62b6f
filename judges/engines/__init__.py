"""The engines: one file each, behind one interface."""

from judges.engines.settings import ENGINES, EngineSettings, open_engine

__all__ = ["ENGINES", "EngineSettings", "open_engine"]
