"""What the server must not forget: keys, uploaded files, batches, their queue and their results."""

from server.store.errors import StoreConflictError, StoreError, StoreUnavailableError
from server.store.records import (
    AdapterRecord,
    BatchRecord,
    BatchStatus,
    FilePart,
    FileRecord,
    FileStatus,
    Key,
    LeasedPart,
    Result,
)
from server.store.store import Store

__all__ = [
    "AdapterRecord",
    "BatchRecord",
    "BatchStatus",
    "FilePart",
    "FileRecord",
    "FileStatus",
    "Key",
    "LeasedPart",
    "Result",
    "Store",
    "StoreConflictError",
    "StoreError",
    "StoreUnavailableError",
]
