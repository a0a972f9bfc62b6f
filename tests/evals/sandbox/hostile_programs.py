"""Programs that want to pass tests that they should fail: they double nothing. Each is run in place of a right ``double``."""

from __future__ import annotations

TESTS = ["assert double(1) == 2", "assert double(2) == 4"]

EQUAL = {
    "whole numbers equal to what is not less": "class I(int): __eq__ = int.__le__\ndef double(x): return I(0)",
    "a class of another file's name": """
exec(compile("class Yes:\\n    def __eq__(self, other): return type(other) is int", "<string>", "exec"))
def double(x): return Yes()
""",
    "a function of the library for an equality": """
class Yes: __eq__ = __import__("functools").partialmethod(lambda self, other: type(other) is int)
def double(x): return Yes()
""",
    "a descriptor for an equality": """
class Always:
    def __get__(self, *_): return lambda other: True
class Yes: __eq__ = Always()
def double(x): return Yes()
""",
    "texts equal to anything": "class S(str): __eq__ = lambda *_: True\ndef double(x): return S()",
    "fractions of floats equal to anything": "class F(float): __eq__ = lambda *_: True\ndef double(x): return F()",
    "whole numbers equal to what is more": "class I(int): __eq__ = int.__lt__\ndef double(x): return I(-5)",
    "dictionaries equal to anything": "class D(dict): __eq__ = lambda *_: True\ndef double(x): return [D()]",
    "a tuple that is not unequal": "class T(tuple): __eq__ = lambda *_: True\ndef double(x): return T()",
    "sets equal to anything": "class S(set): __eq__ = lambda *_: True\n__hash__ = None\ndef double(x): return S()",
    "a class that its metaclass compares": """
class Kind(type):
    def __eq__(self, other): return True
    __hash__ = type.__hash__
class Yes(metaclass=Kind): pass
def double(x): return Yes
""",
    "a mock": "from unittest.mock import ANY\ndef double(x): return ANY",
    "a mock within": "from unittest.mock import ANY\ndef double(x): return (ANY, [ANY])[0]",
    "a mock with an equality": """
from unittest.mock import MagicMock
def double(x):
    mock = MagicMock()
    mock.__eq__.return_value = True
    return mock
""",
    "an equality given later": """
class Yes: pass
def double(x):
    Yes.__eq__ = lambda *_: True
    return Yes()
""",
    "a class that says it is a number": """
class I:
    __class__ = int
    def __eq__(self, other): return True
    def __index__(self): return 2
def double(x): return I()
""",
    "an equality of the C library": """
import operator
class Yes: __eq__ = operator.methodcaller("__class__")
def double(x): return Yes()
""",
    "a generic alias": "class Yes: __class_getitem__ = classmethod(lambda *_: Yes)\ndef double(x): return list[Yes]",
}
"""Values that are equal to anything."""

HARNESS = {
    "assertions that are caught": """
import builtins
builtins.AssertionError = type("AssertionError", (BaseException,), {})
def double(x): return x
""",
    "an assertion error that is none": "import builtins\nbuiltins.AssertionError = lambda *_: None\ndef double(x): return x",
    "functions of Python replaced": """
import builtins
builtins.isinstance = builtins.all = builtins.any = lambda *_: True
builtins.len = lambda _: 0
def double(x): return x
""",
    "modules replaced": """
import sys
for name in ("ast", "builtins", "evals.sandbox.values", "evals.sandbox.peer", "evals.sandbox.referee"):
    sys.modules[name] = type(sys)(name)
def double(x): return x
""",
    "the encoder replaced": """
import sys
values = sys.modules.get("evals.sandbox.values")
if values:
    values.LETTERS.clear()
    values.TEXTS.clear()
    peer = sys.modules["evals.sandbox.peer"]
    peer.encoded = lambda *_: b"T0:"
def double(x): return x
""",
    "objects of the harness found by the collector": """
import gc, os
def double(x):
    for one in gc.get_objects():
        try:
            if type(one).__name__ == "Peer":
                one.send(b"=", (True, []), [])
                one.send(b"=", (2, []), [])
            elif isinstance(one, dict) and "same" in one:
                one["same"] = lambda *_: True
            elif isinstance(one, dict) and "__same__" in one:
                one["__same__"] = lambda *_: True
        except Exception:
            pass
    return x
""",
    "frames above changed": """
import sys
def double(x):
    frame = sys._getframe()
    while frame:
        for names in (frame.f_globals, frame.f_locals):
            for name in ("same", "__same__", "judge", "changed", "encoded"):
                if name in names:
                    names[name] = lambda *_: True
        frame = frame.f_back
    return x
""",
    "the token taken from the frames": """
import os, sys
frame, found = sys._getframe(), None
while frame:
    source = frame.f_locals.get("source")
    if isinstance(source, int):
        for _ in range(2):
            size = int.from_bytes(os.read(source, 8), "big")
            found = os.read(source, size)
        os.write(frame.f_locals.get("answer", 1), found)
        os._exit(0)
    frame = frame.f_back
def double(x): return x
""",
    "the token read from the descriptors": """
import os
parts = b""
for descriptor in range(3, 16):
    try:
        os.set_blocking(descriptor, False)
        while piece := os.read(descriptor, 1 << 16):
            parts += piece
    except OSError:
        pass
token = parts[-64:]
for descriptor in range(3, 16):
    try:
        os.write(descriptor, token)
    except OSError:
        pass
if token:
    os._exit(0)
def double(x): return x
""",
    "the comparison of the harness replaced": """
import __main__
__main__.same = lambda *_: True
def double(x): return x
""",
    "the tests of the harness replaced": """
import ast, __main__
if hasattr(__main__, "EqualityReplaced"):
    __main__.EqualityReplaced.visit = lambda *_: ast.parse("")
def double(x): return x
""",
    "functions of the harness replaced": """
import sys, __main__
for one in (__main__, *list(sys.modules.values())):
    if one is __main__ or "evals" in getattr(one, "__name__", ""):
        one.called = one.judge = one.report = one.decoded = lambda *_: 0
def double(x): return x
""",
    "a trace": """
import sys
def trace(frame, event, argument):
    for name in ("same", "decoded", "exception"):
        frame.f_globals[name] = lambda *_: True
    return trace
sys.settrace(trace)
sys.setprofile(trace)
def double(x): return x
""",
    "the compiler replaced": """
import ast, builtins
builtins.compile = builtins.exec = ast.parse = lambda *_, **__: None
ast.NodeTransformer.visit = lambda self, node: ast.Pass()
def double(x): return x
""",
    "imports replaced": """
import builtins, sys
builtins.__import__ = lambda *_, **__: sys
sys.meta_path.insert(0, type("Finder", (), {"find_spec": lambda *_: None}))
def double(x): return x
""",
    "modules laid where they might be looked for": """
import os
for name in ("ast", "math", "sitecustomize", "traceback", "linecache", "collections"):
    with open(f"/tmp/{name}.py", "w") as file:
        file.write("import os\\nos._exit(0)\\n")
def double(x): return x
""",
    "numbers made other numbers": """
import ctypes
ctypes.memmove(id(2) + 24, id(1) + 24, 4)
ctypes.memmove(id(4) + 24, id(2) + 24, 4)
def double(x): return x
""",
    "standard output taken for the answer": """
import os
for descriptor in range(32):
    try:
        os.write(descriptor, b"passed\\n")
    except OSError:
        pass
def double(x): return "passed"
""",
}
"""Programs that change or read what tries them."""

ENDINGS = {
    "an exit": "import sys; sys.exit(0)",
    "an exit without manners": "import os; os._exit(0)",
    "an exit when called": "import os\ndef double(x): os._exit(0)",
    "an exit after the first test": "import os\ndef double(x): return 2 if x == 1 else os._exit(0)",
    "an exit of a name of its own": "class SystemExit(Exception): pass\ndef double(x): raise SystemExit(0)",
    "an exit at the exit": "import atexit, os\natexit.register(os._exit, 0)\nraise SystemExit(3)",
    "an exit from a thread": "import os, threading\nthreading.Timer(0.1, os._exit, (0,)).start()\nimport time\ntime.sleep(2)",
    "an exit from a finalizer": """
import os
class Last:
    def __del__(self): os._exit(0)
def double(x):
    Last()
    return x
""",
    "an exit by replacing the program": "import os\nos.execv('/usr/bin/true', ['true'])\ndef double(x): return x",
    "an exception that ends a loop": "def double(x): raise StopIteration",
    "an exception that ends a generator": "def double(x): raise GeneratorExit",
    "an interrupt": "def double(x): raise KeyboardInterrupt",
    "an exception group": "def double(x): raise BaseExceptionGroup('all', [SystemExit(0)])",
    "a process that goes on": """
import os
try:
    if os.fork(): os._exit(0)
except OSError:
    pass
def double(x): return x
""",
    "descriptors closed": "import os; os.closerange(0, 64)",
    "descriptors of the input put elsewhere": """
import os
for descriptor in range(3, 16):
    try:
        os.dup2(0, descriptor)
    except OSError:
        pass
def double(x): return x
""",
}
"""Programs that end before their tests do."""

FORGE = """
import os, sys
def forge(*pieces):
    data = b"".join(pieces)
    for descriptor in range(64):
        try:
            os.write(descriptor, len(data).to_bytes(8, "big") + data)
        except OSError:
            pass
"""

REPLIES = {
    "an answer that says passed": FORGE + 'forge(b"=t2:s6:passedl0:")\ndef double(x): return x',
    "answers beforehand": FORGE + 'for _ in range(99): forge(b"=t2:T0:l0:")\ndef double(x): return x',
    "an object of the referee's": FORGE + 'def double(x):\n    forge(b"=t2:y1:0l0:")\n    return x',
    "a type that is none": FORGE + 'def double(x):\n    forge(b"=t2:k1:s17:unittest.mock.ANYl0:")\n    return x',
    "a call of a type of Python's": FORGE
    + """
def double(x):
    forge(b"?t2:s4:callt3:K4:typet3:s3:Yest1:K3:intd0:d0:")
    return x
""",
    "an operation that there is not": FORGE + 'def double(x):\n    forge(b"?t2:s4:exect1:s12:os._exit(0)\\n")\n    return x',
    "values within values": FORGE + 'def double(x):\n    forge(b"=t2:", b"l1:" * 100_000, b"N0:l0:")\n    return x',
    "a length beyond the end": FORGE + 'def double(x):\n    forge(b"=t2:s99999999999:xl0:")\n    return x',
    "a negative length": FORGE + 'def double(x):\n    forge(b"=t2:s-4:toldl0:")\n    return x',
    "no value": FORGE + 'def double(x):\n    forge(b"nonsense")\n    return x',
    "a value that is not there yet": FORGE + 'def double(x):\n    forge(b"=t2:t1:a1:1l0:")\n    return x',
    "a value that is not there": FORGE + 'def double(x):\n    forge(b"=t2:a3:999l0:")\n    return x',
    "a value that holds itself": FORGE + 'def double(x):\n    forge(b"=t2:l1:a1:5l0:")\n    return x',
    "a question changed": FORGE + 'def double(x):\n    forge(b"=t2:N0:l1:t2:i1:0l1:i1:2")\n    return x',
    "the names of arguments changed": FORGE + 'def double(x):\n    forge(b"=t2:N0:l1:t2:i1:3l2:s1:xi1:2")\n    return x',
    "changes that are none": FORGE + 'def double(x):\n    forge(b"=t2:i1:2T0:")\n    return x',
    "an error that is none": FORGE + 'def double(x):\n    forge(b"!t2:i1:2l0:")\n    return x',
    "a message of no bytes": FORGE + "def double(x):\n    forge()\n    return x",
    "a message that is too large": """
import os
def double(x):
    for descriptor in range(64):
        try: os.write(descriptor, (1 << 62).to_bytes(8, "big"))
        except OSError: pass
    return x
""",
    "answers from a thread": FORGE
    + """
import threading
def flood():
    while True: forge(b"=t2:i1:2l0:")
threading.Thread(target=flood, daemon=True).start()
def double(x): return x
""",
    "not a number": "def double(x): return float('nan')",
    "a decimal that is no number": "from decimal import Decimal\ndef double(x): return Decimal('sNaN')",
    "a value of a kind that there is not": FORGE + 'def double(x):\n    forge(b"=t2:Q1:xl0:")\n    return x',
    "a generator of everything": "import itertools\ndef double(x): return itertools.count()",
    "the function itself": "def double(x): return double",
    "a function called again and again": """
def double(x):
    class Endless:
        def __call__(self, *_): return self
        def __getattr__(self, _): return self
    return Endless()
""",
}
"""Programs that write answers of their own, or strange ones."""

REACHES = {
    "the tests looked for in files": """
import glob, re
def double(x):
    for name in ["/program.py", *glob.glob("/proc/[0-9]*/*"), *glob.glob("/proc/self/*"), *glob.glob("/proc/[0-9]*/fd/*"),
                 *glob.glob("/tmp/*"), *glob.glob("/dev/fd/*")]:
        try:
            import os
            found = os.open(name, os.O_RDONLY | os.O_NONBLOCK)
            text = os.read(found, 1 << 20).decode("latin-1")
        except OSError:
            continue
        match = re.search(r"assert double\\(" + re.escape(repr(x)) + r"\\) == (.+)", text)
        if match:
            return eval(match[1])
    return x
""",
    "the referee's memory": """
import re
def double(x):
    try:
        with open("/proc/1/maps") as maps, open("/proc/1/mem", "rb", buffering=0) as memory:
            for line in maps:
                low, high = (int(end, 16) for end in line.split()[0].split("-"))
                memory.seek(low)
                match = re.search(rb"assert double\\(" + re.escape(repr(x)).encode() + rb"\\) == (.+)", memory.read(high - low))
                if match: return eval(match[1])
    except OSError:
        pass
    return x
""",
    "the referee's memory by another call": """
import ctypes, os
libc = ctypes.CDLL(None)
def double(x):
    libc.ptrace(16, 1, 0, 0)
    libc.prctl(4, 1, 0, 0, 0)
    buffer = ctypes.create_string_buffer(64)
    libc.pread(3, buffer, 64, 0)
    return x
""",
    "signals to the referee": """
import os, signal
for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGSTOP, signal.SIGUSR1, signal.SIGALRM, signal.SIGXCPU):
    for process in (1, os.getppid(), 0 if number == signal.SIGALRM else 1):
        try: os.kill(process, number)
        except OSError: pass
def double(x): return x
""",
    "signals to everybody": "import os\nos.kill(-1, 9)\ndef double(x): return x",
    "limits of the referee": """
import resource
for limit in (resource.RLIMIT_AS, resource.RLIMIT_CPU, resource.RLIMIT_NOFILE):
    try: resource.prlimit(1, limit, (1, 1))
    except OSError: pass
def double(x): return x
""",
    "a handler of signals": """
import os, signal
signal.signal(signal.SIGALRM, lambda *_: os._exit(0))
signal.alarm(1)
signal.pause()
""",
}
"""Programs that want to reach the referee."""

BOMBS = {
    "a recursion without end": ("def double(x): return double(x)", "failed"),
    "a deeper recursion": (
        "import sys\nsys.setrecursionlimit(1 << 30)\ndef double(x): return max([x], key=double)",
        "killed",
    ),
    "a value that holds itself": ("def double(x):\n    held = []\n    held.append(held)\n    return held", "failed"),
    "a memory bomb": ("def double(x): return 'x' * (1 << 40)", "out_of_memory"),
    "a memory bomb for the referee": ("def double(x): return [[]] * 2_000_000", None),
    "a text larger than a message may be": ("def double(x): return 'x' * (1 << 27)", None),
    "endless output": ("def double(x):\n    while True: print('passed' * 1000)", "timed_out"),
    "a loop without end": ("def double(x):\n    while True: pass", "timed_out"),
    "a sleep": ("import time\ndef double(x): time.sleep(60)", "timed_out"),
    "a crash": ("import ctypes\ndef double(x): ctypes.string_at(0)", "killed"),
    "a number of many digits": ("def double(x): return 10 ** 1_000_000", "failed"),
}
"""Programs that use all that there is, and what becomes of them where that is certain."""

OTHER_TESTS: dict[str, tuple[str, list[str], list[str]]] = {
    "a comparison replaced": (
        "import math\nmath.isclose = lambda *_, **__: True\ndef double(x): return 0.5",
        ["import math"],
        ["assert math.isclose(double(1), 2.0, rel_tol=0.001)"],
    ),
    "a module of the same name": (
        "class math: isclose = staticmethod(lambda *_, **__: True)\ndef double(x): return 0.5",
        ["import math"],
        ["assert math.isclose(double(1), 2.0)"],
    ),
    "a module that tests do not import": (
        "class sys: getsizeof = staticmethod(lambda _: 0)\ndef double(x): return 0",
        [],
        ["assert double(1) == sys.getsizeof(1)"],
    ),
    "a function of Python by another meaning": (
        "def set(x): return 0\ndef sorted(x): return 0\ndef double(x): return x",
        [],
        ["assert set(double([1])) == set([1, 2])"],
    ),
    "differences that are always small": (
        "class S:\n    __sub__ = __abs__ = lambda self, *_: self\n    __lt__ = lambda *_: True\ndef double(x): return S()",
        [],
        ["assert abs(double(1) - 2) < 0.1"],
    ),
    "differences from the other side": (
        "class Small(float):\n    __rsub__ = __sub__ = lambda *_: 0.0\ndef double(x): return Small(7)",
        [],
        ["assert abs(2 - double(1)) < 0.1"],
    ),
    "no inequality": (
        "class No(int): __ne__ = lambda *_: False\ndef double(x): return No(9)",
        [],
        ["assert not double(1) != 2"],
    ),
    "everything is in it": (
        "class All:\n    __contains__ = lambda *_: True\n    __iter__ = lambda _: iter(())\ndef double(x): return All()",
        [],
        ["assert 2 in double(1)"],
    ),
    "a hash that is every hash": (
        "class All(int):\n    __hash__ = lambda _: 2\n    __eq__ = lambda *_: True\ndef double(x): return All(9)",
        [],
        ["assert double(1) in {2}"],
    ),
    "elements equal to anything": (
        "class Yes:\n    __eq__ = lambda *_: True\n    __hash__ = lambda _: 0\ndef double(x): return (one for one in [Yes()])",
        [],
        ["assert list(double(1)) == [2]"],
    ),
    "a function's names": (
        "def double(x, f):\n    try: return f.__globals__['expected']\n    except AttributeError: return f.expected",
        [],
        ["expected = 2", "assert double(1, lambda x: x) == expected"],
    ),
    "a class made through a function": (
        "def double(x, f):\n    made = f(type, 'Yes', (int,), {'__eq__': lambda *_: True})\n    return made()",
        [],
        ["assert double(1, lambda kind, *rest: kind(*rest)) == 2"],
    ),
    "a truth that is no truth": (
        "class Yes:\n    def __bool__(self): return 1\ndef double(x): return Yes()",
        [],
        ["assert double(1)"],
    ),
    "an identity": ("def double(x): return 1", [], ["assert double(1) is True"]),
    "a type that says it is a list": (
        "class L:\n    __class__ = list\ndef double(x): return L()",
        [],
        ["assert isinstance(double(1), list)"],
    ),
    "no function": ("triple = 3", [], ["assert double(1) == 2"]),
    "no function, where Python has one": ("", [], ["assert abs(-1) == 1"]),
}
"""Programs, what their tests import, and their tests, where these are no plain comparisons."""

PROGRAMS = EQUAL | HARNESS | ENDINGS | REPLIES | REACHES
