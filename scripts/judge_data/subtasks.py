"""Finds which sub-tasks a program or a summary shows, without a model."""

from __future__ import annotations

import ast
import random
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

STRING_METHODS = frozenset(
    ("split", "join", "replace", "upper", "lower", "strip", "isalpha", "isdigit", "isupper", "islower", "startswith", "endswith")
)
CALLS = {
    "sorted": "sorting", "sort": "sorting", "heapq": "sorting", "min": "minimum", "max": "minimum", "len": "counting",
    "count": "counting", "Counter": "counting", "sum": "counting", "dict": "dictionaries", "defaultdict": "dictionaries",
    "items": "dictionaries", "keys": "dictionaries", "values": "dictionaries", "get": "dictionaries", "set": "sets",
    "intersection": "sets", "union": "sets", "difference": "sets", "tuple": "tuples", "map": "functional", "filter": "functional",
    "reduce": "functional", "zip": "tuples", "int": "conversion", "str": "conversion", "float": "conversion", "ord": "conversion",
    "chr": "conversion", "sqrt": "arithmetic", "pow": "arithmetic", "abs": "arithmetic", "append": "lists", "extend": "lists",
    "pop": "lists", "reversed": "lists", "range": "loops",
}  # fmt: skip
MODULES = {"re": "patterns", "math": "arithmetic", "cmath": "arithmetic", "heapq": "sorting", "collections": "dictionaries"}
OPERATORS: Mapping[type[ast.operator], str] = {
    ast.Mod: "arithmetic", ast.Pow: "arithmetic", ast.Div: "arithmetic", ast.FloorDiv: "arithmetic", ast.Mult: "arithmetic",
    ast.BitAnd: "bits", ast.BitOr: "bits", ast.BitXor: "bits", ast.LShift: "bits", ast.RShift: "bits",
}  # fmt: skip
CODE_NAMES = {
    "sorting": ("Sorting", "Ordering elements", "sorting a collection"),
    "minimum": ("Finding a minimum or maximum", "Extremes of a collection"),
    "counting": ("Counting and summing", "Counting elements", "Aggregation of values"),
    "dictionaries": ("Dictionaries", "Key-value mappings", "Dictionary manipulation"),
    "sets": ("Sets", "Set operations"),
    "tuples": ("Tuples", "Tuple handling"),
    "functional": ("Lambda, map and filter", "Functional programming"),
    "conversion": ("Type conversion", "Converting between types"),
    "arithmetic": ("Mathematical computation", "Arithmetic", "Mathematics"),
    "lists": ("List manipulation", "Lists", "Building lists"),
    "loops": ("Loops", "Iteration", "Looping over a sequence"),
    "patterns": ("Regular expressions", "Pattern matching", "Regex"),
    "bits": ("Bit manipulation", "Bitwise operations"),
    "strings": ("String handling", "String manipulation", "Text processing"),
    "recursion": ("Recursion", "Recursive calls"),
    "conditions": ("Conditional logic", "Branching", "Conditions"),
}
"""Sub-tasks of programs, and names for each."""

TASK_PATTERNS = {
    "sorting": r"\bsort|\border(?:ed)?\b|heap",
    "minimum": r"\bmax|\bmin|smallest|largest|longest|shortest|closest",
    "counting": r"\bcount|\bsum\b|number of|total|average|frequenc",
    "dictionaries": r"dictionar",
    "sets": r"\bsets?\b|unique|distinct",
    "tuples": r"tuple",
    "lists": r"\blists?\b|array",
    "patterns": r"regex|regular expression|matches",
    "bits": r"\bbits?\b|bitwise|binary",
    "strings": r"string|character|\bword|vowel|letter",
    "functional": r"lambda",
    "conversion": r"convert",
    "arithmetic": r"area|volume|perimeter|prime|power|multipl|divi|factorial|digit|\bsum\b|\bn-?th\b|\bodd\b|\beven\b",
    "recursion": r"recurs|fibonacci|nested",
    "conditions": r"\bcheck|whether|\bif\b",
    "loops": r"\beach\b|\ball\b|every|\blists?\b|array|elements|first n\b",
}
"""How a task calls for a sub-task."""

NUMBER = (
    r"(?<![\w#])\d|\b(?:two|three|four|five|six|seven|eight|nine|ten|twenty|thirty|fifty|hundred|thousand|half|percent|dollars|"
    r"yuan)\b"
)
TIME = (
    r"\b(?:(?:mon|tues|wednes|thurs|fri|satur|sun)day|january|february|march|april|june|july|august|september|october|november|"
    r"december|morning|afternoon|evening|tonight|tomorrow|yesterday|today|weeks?|weekends?|months?|years?|o'clock|[ap]\.?m\.?|hours?)\b"
)
SUMMARY_PATTERNS = {
    "times": TIME,
    "numbers": NUMBER,
    "decisions": r"\b(?:decides?|will|plans?|agrees?|promises?|going to|chooses?|arranges?)\b|'ll\b",
    "reasons": r"\b(?:because|since|due to|so that|as a result|reason)\b",
    "requests": r"\b(?:asks?|requests?|wants?|needs?|begs?|orders?|help)\b",
    "opinions": r"\b(?:thinks?|feels?|likes?|loves?|hates?|believes?|prefers?|worried|happy|angry|sad|satisfied|surprised)\b",
    "advice": r"\b(?:suggests?|advises?|recommends?|should|encourages?|persuades?|warns?)\b",
    "contrast": r"\b(?:but|however|although|though|instead|while)\b",
    "invitations": r"\b(?:invites?|invitation|party|dinner together|go together|join)\b",
    "prices": r"\b(?:dollars?|yuan|price|prices|cost|costs|pays?|expensive|cheap|discount|money)\b|\$",
}
SUMMARY_NAMES = {
    "times": ("Giving the time or the date", "Temporal information", "Names the time"),
    "numbers": ("Stating numbers", "Numerical details", "Figures and amounts"),
    "decisions": ("Stating a decision or a plan", "Reporting what is decided", "Future plans"),
    "reasons": ("Giving reasons", "Causal explanation", "Cause and effect"),
    "requests": ("Reporting a request", "Requests and needs", "Says who asks for what"),
    "opinions": ("Describing feelings or opinions", "Opinions and emotions", "Reporting what somebody thinks"),
    "advice": ("Reporting advice", "Suggestions and recommendations"),
    "contrast": ("Showing a contrast", "Contrasting views", "Reporting disagreement"),
    "invitations": ("Reporting an invitation", "Social arrangements"),
    "prices": ("Money and prices", "Naming costs", "Prices and payment"),
}
"""Sub-tasks of summaries, and names for each."""


@dataclass(frozen=True, slots=True)
class Found:
    """How much of a sub-task there is, from 1 to 5, and the words that show it, if any do."""

    rating: int
    evidence: str = ""


def in_code(code: str) -> dict[str, Found]:
    """Each sub-task of programs in a program."""
    try:
        tree = ast.parse(code)
    except SyntaxError:
        return {}
    counts: Counter[str] = Counter()
    shown: dict[str, str] = {}
    for subtask, node in _uses(tree):
        counts[subtask] += 1
        shown.setdefault(subtask, _shown(node))
    return {name: Found(1 if not counts[name] else 4 + (counts[name] > 1), shown.get(name, "")) for name in CODE_NAMES}


def in_task(task: str, code: str) -> dict[str, Found]:
    """Each sub-task of programs in a task: what its words call for, or what its solution uses."""
    found = in_code(code)
    for name, pattern in TASK_PATTERNS.items():
        hit = re.search(pattern, task, re.IGNORECASE)
        if hit:
            found[name] = Found(4 + (found[name].rating > 3), _around(task, hit))
        elif found[name].rating > 3:  # Its words do not say so: another solution may do without.
            found[name] = Found(3, "a solution may use it")
    return found


def _shown(node: ast.AST) -> str:
    return " ".join(ast.unparse(node).split("\n")[0].split()[:6])[:40]


def _uses(tree: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    functions = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
                if name in CALLS:
                    yield CALLS[name], node
                if isinstance(node.func, ast.Attribute) and name in STRING_METHODS:
                    yield "strings", node
            case ast.FunctionDef(name=name):
                own = [call for call in ast.walk(node) if isinstance(call, ast.Call) and isinstance(call.func, ast.Name)]
                if name in functions and any(isinstance(call.func, ast.Name) and call.func.id == name for call in own):
                    yield from [("recursion", node)] * 2
            case ast.Import(names=names):
                yield from ((MODULES[alias.name], node) for alias in names if alias.name in MODULES)
            case ast.ImportFrom(module=str(module)) if module in MODULES:
                yield MODULES[module], node
            case ast.BinOp(op=operator) | ast.AugAssign(op=operator) if type(operator) in OPERATORS:
                yield OPERATORS[type(operator)], node
            case ast.For() | ast.While() | ast.comprehension():
                yield "loops", node
            case ast.If() | ast.IfExp():
                yield "conditions", node
            case ast.Dict():
                yield "dictionaries", node
            case ast.Set():
                yield "sets", node
            case ast.Lambda():
                yield "functional", node
            case ast.ListComp() | ast.List():
                yield "lists", node


def in_summary(text: str, dialogue: str = "") -> dict[str, Found]:
    """Each sub-task of summaries in a summary; a dialogue that has it while its summary has not gives 2."""
    found = {}
    for name, pattern in SUMMARY_PATTERNS.items():
        hits = list(re.finditer(pattern, text, re.IGNORECASE))
        if hits:
            found[name] = Found(4 + (len(hits) > 1), _around(text, hits[0]))
        else:
            found[name] = Found(2 if dialogue and re.search(pattern, dialogue, re.IGNORECASE) else 1)
    return found


def _around(text: str, hit: re.Match[str]) -> str:
    """The hit with a word or two on each side."""
    before, after = text[: hit.start()].split(" ")[-3:], text[hit.end() :].split(" ")[:3]
    return f"{' '.join(before)}{hit[0]}{' '.join(after)}".strip(" .,")


def stub(code: str) -> str:
    """The program with nothing in it."""
    head = re.search(r"def .*?:", code, re.DOTALL)
    return f"{head[0] if head else 'def solve():'}\n    pass"


def halved(code: str, rng: random.Random) -> str:
    """The program without some of the statements of its last function."""
    tree = ast.parse(code)
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    if functions and len(functions[-1].body) > 1:
        del functions[-1].body[rng.randrange(1, len(functions[-1].body)) :]
    return ast.unparse(tree)
