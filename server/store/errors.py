"""What a store can fail with."""

from judges.errors import MagistrateError


class StoreError(MagistrateError):
    """The store cannot do what was asked, and trying again will not help."""


class StoreConflictError(StoreError):
    """What was asked does not go with what the store holds, for example to delete a file that a batch still reads."""


class StoreAnsweredError(StoreConflictError):
    """A call with the same idempotency key was answered before.

    Args:
        message: For the caller.
        digest: Of this call.
    """

    def __init__(self, message: str, digest: str) -> None:
        super().__init__(message)
        self.digest = digest


class StoreQuotaError(StoreError):
    """What was asked would keep more than its owner may."""


class StoreUnavailableError(StoreError):
    """The store cannot do it now: the disk is full, or the database gone or locked. Nothing was changed; later it may pass."""
