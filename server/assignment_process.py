"""Solves one assignment in a process of its own: the body of the call comes in, and its answer goes out.

    python -m server.assignment_process SERVER

It ends with the process SERVER. Where it refuses the body, its output says why.
"""

from __future__ import annotations

import json
import os
import sys

from judges.engines.own_session import end_with
from server.errors import ApiError
from server.routes.assignments import REFUSED, answer_of


def main() -> None:
    """Read, solve and write. Nothing is freed one by one at the end, which would take as long as reading it."""
    end_with(int(sys.argv[1]))
    try:
        status, answer = 0, answer_of(sys.stdin.buffer.read())
    except ApiError as fault:
        said = {"status": fault.status, "message": fault.message, "code": fault.code, "param": fault.param}
        status, answer = REFUSED, json.dumps(said).encode()
    sys.stdout.buffer.write(answer)
    sys.stdout.buffer.flush()
    os._exit(status)


if __name__ == "__main__":
    main()
