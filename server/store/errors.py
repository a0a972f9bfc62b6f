"""What a store can fail with."""

from judges.errors import MagistrateError


class StoreError(MagistrateError):
    """The store cannot do what was asked, and trying again will not help."""


class StoreConflictError(StoreError):
    """What was asked does not go with what the store holds, for example to delete a file that a batch still reads."""


class StoreUnavailableError(StoreError):
    """The store cannot do it now: the disk is full, or the database gone or locked. Nothing was changed; later it may pass."""
