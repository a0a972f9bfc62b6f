"""The server's durable state: keys, uploaded files, batches, their queue and their results."""

from server.store.records import (
    AdapterRecord,
    Answer,
    BatchRecord,
    BatchStatus,
    FilePart,
    FileRecord,
    FileStatus,
    Key,
    LeasedPart,
    Result,
    StoreAnsweredError,
    StoreConflictError,
    StoreError,
    StoreQuotaError,
    StoreUnavailableError,
)
from server.store.store import Store

__all__ = [
    "AdapterRecord",
    "Answer",
    "BatchRecord",
    "BatchStatus",
    "FilePart",
    "FileRecord",
    "FileStatus",
    "Key",
    "LeasedPart",
    "Result",
    "Store",
    "StoreAnsweredError",
    "StoreConflictError",
    "StoreError",
    "StoreQuotaError",
    "StoreUnavailableError",
]
