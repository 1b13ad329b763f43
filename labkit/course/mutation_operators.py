"""The mistakes that make a mutant: each operator yields, for one place in a syntax tree, what could wrongly stand there.

An operator is a function of a `Site`; `OPERATORS` lists them by the name that the report shows. One more is one function and one row.
"""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

SMALL = 16
"""Whole numbers up to this are moved by one; larger ones, as in a conversion of units, are doubled and halved: 1001 for 1000 is within a tolerance."""

AXES = {"dim", "dims", "axis", "axes", "dim0", "dim1"}
SHAPED = {"permute", "movedim", "reshape", "view", "expand", "repeat", "tile", "zeros", "ones", "empty", "full"}
TRANSPOSED = {"transpose", "swapaxes", "swapdims", "t", "adjoint"}
MODULES = {"torch", "np", "numpy", "jnp"}
DTYPES = {
    "float64": ("float32",), "float32": ("float16", "float64"), "float16": ("bfloat16", "float32"), "bfloat16": ("float16", "float32"),
    "int64": ("int32",), "int32": ("int64",), "int16": ("int8",), "int8": ("uint8",), "uint8": ("int8",), "bool": ("uint8",),
    "complex64": ("complex128",), "complex128": ("complex64",),
}  # fmt: skip
CASTS = {"double": "float", "float": "half", "half": "bfloat16", "bfloat16": "half", "long": "int", "int": "long"}
EXCHANGED = {
    ast.Add: (ast.Sub,), ast.Sub: (ast.Add,), ast.Mult: (ast.Div,), ast.Div: (ast.Mult, ast.FloorDiv), ast.FloorDiv: (ast.Div,),
    ast.Mod: (ast.FloorDiv,), ast.Pow: (ast.Mult,), ast.LShift: (ast.RShift,), ast.RShift: (ast.LShift,), ast.BitAnd: (ast.BitOr,), ast.BitOr: (ast.BitAnd,),
}  # fmt: skip
PAIRS = (
    ("min", "max"), ("amin", "amax"), ("argmin", "argmax"), ("minimum", "maximum"), ("floor", "ceil"), ("any", "all"),
    ("median", "mean"), ("cumsum", "cumprod"), ("sum", "prod"),
)  # fmt: skip
CALLED = {a: b for pair in PAIRS for a, b in (pair, pair[::-1])}
OPPOSITE = {
    ast.Lt: ast.GtE, ast.GtE: ast.Lt, ast.Gt: ast.LtE, ast.LtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
STRICT = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt}


@dataclass(frozen=True)
class Site:
    """A place in a syntax tree: the node there, its ancestors (outermost first), and the field (and index) of its parent."""

    node: ast.AST
    ancestors: tuple
    field: str
    index: int | None = None

    @property
    def parent(self) -> ast.AST:
        return self.ancestors[-1]

    def put(self, node: ast.AST) -> None:
        """Puts another node into this place."""
        if self.index is None:
            setattr(self.parent, self.field, node)
        else:
            getattr(self.parent, self.field)[self.index] = node


def factor_two(site: Site) -> Iterator[ast.AST]:
    """A sum, a product or a returned value is twice or half what it should be: a FLOP for a multiply-add, a read without the write."""
    node, parent = site.node, site.parent
    # Within a product the factor is the same as around it.
    factor = isinstance(parent, ast.BinOp) and isinstance(parent.op, (ast.Mult, ast.Div))
    if (_arithmetic(node) and not factor) or (_returned(site) and isinstance(node, _VALUES)):
        for operator in (ast.Mult(), ast.Div()):
            yield ast.BinOp(node, operator, ast.Constant(2))


_VALUES = (ast.Name, ast.Attribute, ast.Subscript, ast.Call)


def _arithmetic(node: ast.AST) -> bool:
    # Not `%`: what it gives is compared with 0 nearly always, and twice 0 is 0.
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, _SCALABLE):
        return False
    return not any(
        isinstance(n, ast.JoinedStr) or (isinstance(n, ast.Constant) and isinstance(n.value, str)) for n in (node.left, node.right)
    )


_SCALABLE = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Pow, ast.MatMult)
_PARTS = {ast.Dict: "values", ast.Tuple: "elts", ast.List: "elts", ast.ListComp: "elt", ast.keyword: "value"}


def _returned(site: Site) -> bool:
    """Whether the node is a returned value, or an element or a dict's value of one."""
    child = site.node
    for node in reversed(site.ancestors):
        if isinstance(node, ast.Return):
            return True
        made = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "dict"
        part = "keywords" if made else _PARTS.get(type(node))
        held = getattr(node, part) if part else None
        if not (held is child or (isinstance(held, list) and any(item is child for item in held))):
            return False
        child = node
    return False


def axis(site: Site) -> Iterator[ast.AST]:
    """Another dimension: `dim=` and `axis=`, an index from the end, two sizes exchanged, a matrix not transposed."""
    node, parent = site.node, site.parent
    number = _integer(node)
    if isinstance(parent, ast.keyword) and parent.arg in AXES:
        if number is not None:
            yield from (_number(number - 1), _number(number + 1))
        elif isinstance(node, (ast.Tuple, ast.List)):
            yield from (_with(node, elts=elements) for elements in _neighbours_exchanged(node.elts))
    if number is not None and number < 0 and isinstance(parent, ast.Subscript):
        yield from (_number(number - 1), _number(number + 1))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        called = node.func.attr
        if called in SHAPED:
            yield from (_with(node, args=arguments) for arguments in _neighbours_exchanged(node.args))
            if len(node.args) == 1 and isinstance(node.args[0], (ast.Tuple, ast.List)):
                for elements in _neighbours_exchanged(node.args[0].elts):
                    yield _with(node, args=[_with(node.args[0], elts=elements)])
        elif called in TRANSPOSED:
            function = isinstance(node.func.value, ast.Name) and node.func.value.id in MODULES and node.args
            yield node.args[0] if function else node.func.value
    if isinstance(node, ast.Attribute) and node.attr in ("T", "mT"):
        yield node.value
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
        yield _with(node, left=node.right, right=node.left)


def _neighbours_exchanged(items: list) -> Iterator[list]:
    for i in range(len(items) - 1):
        yield [*items[:i], items[i + 1], items[i], *items[i + 2 :]]


def off_by_one(site: Site) -> Iterator[ast.AST]:
    """One too many or too few: `<` for `<=`, and the bounds of indices, ranges and slices."""
    node, parent = site.node, site.parent
    if isinstance(node, ast.Compare):
        for i, operator in enumerate(node.ops):
            if type(operator) in STRICT:
                yield _with(node, ops=[*node.ops[:i], STRICT[type(operator)](), *node.ops[i + 1 :]])
    in_range = isinstance(parent, ast.Call) and isinstance(parent.func, ast.Name) and parent.func.id == "range"
    in_slice = isinstance(parent, ast.Slice) and site.field in ("lower", "upper")
    in_index = isinstance(parent, ast.Subscript) and site.field == "slice"
    in_index |= isinstance(parent, ast.Tuple) and isinstance(site.ancestors[-2], ast.Subscript)
    if (in_range and site.index is not None and site.index < 2) or in_slice or (in_index and _integer(node) is not None):
        for step in (1, -1):
            number = _integer(node)
            if number is not None:
                yield _number(number + step)
            else:
                yield ast.BinOp(node, ast.Add() if step > 0 else ast.Sub(), ast.Constant(1))


def dtype(site: Site) -> Iterator[ast.AST]:
    """Another dtype: as an attribute of torch or numpy, as text, or as the method that casts."""
    node = site.node
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in MODULES:
        yield from (_with(node, attr=other) for other in DTYPES.get(node.attr, ()))
    if isinstance(node, ast.Constant) and isinstance(node.value, str) and not _key(site):
        prefix, _, name = node.value.rpartition(".")
        if prefix in ("", "torch", "numpy"):
            yield from (ast.Constant(node.value[: len(node.value) - len(name)] + other) for other in DTYPES.get(name, ()))
    if (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in CASTS
        and not (node.args or node.keywords)
    ):
        yield _with(node, func=_with(node.func, attr=CASTS[node.func.attr]))


def constant(site: Site) -> Iterator[ast.AST]:
    """Another number, or another text: the next one of the function, else none. Keys are left alone, they are the answer's form."""
    node = site.node
    if not isinstance(node, ast.Constant):
        return
    value = node.value
    if type(value) is int:
        yield from map(ast.Constant, (value + 1, value - 1) if value <= SMALL else (value * 2, value // 2))
    elif type(value) is float:
        yield from map(ast.Constant, (value * 2, value / 2) if value else (1.0,))
    elif type(value) is str and not _key(site) and not isinstance(site.parent, ast.Expr):
        yield ast.Constant(_other_text(site, value))


def _key(site: Site) -> bool:
    """Whether a text is a key: of a dict, in brackets, or the first argument of `.get`, `.pop` and `.setdefault`."""
    parent = site.parent
    lookup = (
        isinstance(parent, ast.Call) and isinstance(parent.func, ast.Attribute) and parent.func.attr in ("get", "pop", "setdefault")
    )
    return (
        (isinstance(parent, ast.Dict) and site.field == "keys")
        or (isinstance(parent, ast.Subscript) and site.field == "slice")
        or (lookup and site.field == "args" and site.index == 0)
    )


def _other_text(site: Site, value: str) -> str:
    function = next(
        (a for a in reversed(site.ancestors) if isinstance(a, (ast.FunctionDef, ast.AsyncFunctionDef))), site.ancestors[0]
    )
    texts: list[str] = []
    for node in ast.walk(function):
        # Values, not keys and not prose such as a docstring or a message.
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and re.fullmatch(r"\S{1,40}", node.value):
            texts.append(node.value)
    keys = {k.value for n in ast.walk(function) if isinstance(n, ast.Dict) for k in n.keys if isinstance(k, ast.Constant)}
    texts = [text for text in dict.fromkeys(texts) if text not in keys]
    if value not in texts or len(texts) == 1:
        return ""
    return texts[(texts.index(value) + 1) % len(texts)]


def branch(site: Site) -> Iterator[ast.AST]:
    """A condition the other way round, half of a condition, a branch that is never or always taken, a guard taken away."""
    node = site.node
    if isinstance(node, ast.If):
        yield _with(node, test=negated(node.test))
        yield _with(node, body=[ast.Pass()])
        yield _with(node, test=ast.Constant(True))
        if node.orelse:
            yield _with(node, orelse=[])
    elif isinstance(node, ast.While) and not isinstance(node.test, ast.Constant):
        yield _with(node, test=negated(node.test))
    elif isinstance(node, ast.IfExp):
        yield from (_with(node, test=negated(node.test)), node.body, node.orelse)
    elif isinstance(node, ast.Compare) and len(node.ops) == 1:
        yield negated(node)
    elif isinstance(node, ast.BoolOp):
        yield _with(node, op=ast.Or() if isinstance(node.op, ast.And) else ast.And())
        for i in range(len(node.values)):
            rest = [*node.values[:i], *node.values[i + 1 :]]
            yield rest[0] if len(rest) == 1 else _with(node, values=rest)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield node.operand
    elif isinstance(node, ast.Try):
        yield ast.If(ast.Constant(True), [*node.body, *node.orelse, *node.finalbody], [])
    elif isinstance(node, ast.With):
        yield ast.If(ast.Constant(True), node.body, [])
    if isinstance(site.parent, ast.comprehension) and site.field == "ifs":
        yield from (negated(node), ast.Constant(True))


def negated(test: ast.expr) -> ast.expr:
    """The opposite condition, as a person would write it: `<` for `>=`, no second `not`."""
    if isinstance(test, ast.Compare) and len(test.ops) == 1:
        return _with(test, ops=[OPPOSITE[type(test.ops[0])]()])
    return test.operand if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not) else ast.UnaryOp(ast.Not(), test)


def arithmetic(site: Site) -> Iterator[ast.AST]:
    """Another operator: + for -, * for /, // for /, min for max, a sign forgotten."""
    node = site.node
    if isinstance(node, (ast.BinOp, ast.AugAssign)):
        yield from (_with(node, op=operator()) for operator in EXCHANGED.get(type(node.op), ()))
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        yield node.operand
    elif isinstance(node, ast.Call):
        function = node.func
        if isinstance(function, ast.Name) and function.id in CALLED:
            yield _with(node, func=_with(function, id=CALLED[function.id]))
        elif isinstance(function, ast.Attribute) and function.attr in CALLED:
            yield _with(node, func=_with(function, attr=CALLED[function.attr]))


def statement(site: Site) -> Iterator[ast.AST]:
    """A step left out: a call whose value nobody uses, an assignment to something that has a value already, a jump, a refusal."""
    node = site.node
    called = isinstance(node, ast.Expr) and not isinstance(node.value, ast.Constant)
    if called or isinstance(node, (ast.AugAssign, ast.Break, ast.Continue, ast.Raise, ast.Assert)):
        yield ast.Pass()
    elif isinstance(node, ast.Assign) and all(_bound_before(site, target) for target in node.targets):
        yield ast.Pass()


def _bound_before(site: Site, target: ast.expr) -> bool:
    """Whether a target has a value without this assignment; dropping the first one would only be a NameError."""
    if isinstance(target, (ast.Subscript, ast.Attribute)):
        return True
    if not isinstance(target, ast.Name):
        return False
    function = next(
        (a for a in reversed(site.ancestors) if isinstance(a, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))), None
    )
    arguments = {a.arg for a in ast.walk(function.args) if isinstance(a, ast.arg)} if function else set()
    before = {
        n.id
        for n in ast.walk(function or site.ancestors[0])
        if isinstance(n, ast.Name)
        and isinstance(n.ctx, ast.Store)
        and (n.lineno, n.col_offset) < (target.lineno, target.col_offset)
    }
    return target.id in arguments | before


def boolean(site: Site) -> Iterator[ast.AST]:
    """True for False."""
    if isinstance(site.node, ast.Constant) and isinstance(site.node.value, bool):
        yield ast.Constant(not site.node.value)


def _integer(node: ast.AST) -> int | None:
    """Value of a whole number, also of a negative one, which Python parses as an operator and a number."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = _integer(node.operand)
        return None if inner is None else -inner
    return node.value if isinstance(node, ast.Constant) and type(node.value) is int else None


def _number(value: int) -> ast.expr:
    return ast.Constant(value) if value >= 0 else ast.UnaryOp(ast.USub(), ast.Constant(-value))


def _with(node: ast.AST, **fields) -> ast.AST:
    """A copy of a node with other fields; what is below is shared, and nobody changes it."""
    new = copy.copy(node)
    for name, value in fields.items():
        setattr(new, name, value)
    return new


OPERATORS: dict[str, Callable[[Site], Iterator[ast.AST]]] = {
    "factor two": factor_two,
    "axis": axis,
    "off by one": off_by_one,
    "dtype": dtype,
    "constant": constant,
    "branch": branch,
    "arithmetic": arithmetic,
    "statement": statement,
    "boolean": boolean,
}
"""Name -> operator. Where two make the same mutant, the first gives it its name."""
