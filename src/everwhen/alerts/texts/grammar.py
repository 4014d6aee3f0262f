"""What a template may be made of: walks its syntax tree before it is compiled.

Whatever is not named here is refused, with its line. Names and members are looked up in the shape of the facts, loops
count as often as the longest list has items, and the sum of all steps is bounded.
"""

from collections.abc import Callable, Mapping
from typing import Final

from jinja2 import nodes

from everwhen.alerts.texts.filters import FILTERS, LIST, FilterRule
from everwhen.alerts.texts.shapes import EITHER, NUMBER, TEXT, ListOf, Shape, describe

MOST_DEPTH: Final = 40
MOST_ITEMS: Final = 20
MOST_STEPS: Final = 20_000
FILTER_STEPS: Final = 10
"""How many steps a filter counts for: it reads a whole text."""

LOOP: Final[Shape] = {"index": NUMBER, "length": NUMBER, "first": NUMBER, "last": NUMBER}
"""What a loop tells of itself."""

_RESERVED: Final = frozenset({"loop", "self", "super", "caller", "varargs", "kwargs"})
_ORDERED: Final = frozenset({"lt", "lteq", "gt", "gteq"})


class TemplateProblem(Exception):  # noqa: N818  # an answer to whoever wrote the template
    """A template that cannot be used: what is wrong with it, and in which line."""

    def __init__(self, message: str, *, line: int) -> None:
        super().__init__(f"line {line}: {message}")
        self.line = line


def check(tree: nodes.Template, names: Mapping[str, Shape]) -> None:
    """Raise TemplateProblem at the first thing that cannot be."""
    _Checker(names).check(tree)


class _Checker:
    """Walks a tree once: refuses what is not in the language, resolves names, and counts steps."""

    def __init__(self, names: Mapping[str, Shape]) -> None:
        self._names = names
        self._steps = 0

    def check(self, tree: nodes.Template) -> None:
        """Raise TemplateProblem at the first thing that cannot be."""
        self._body(tree.body, dict(self._names), times=1, depth=0)

    def _body(self, body: list[nodes.Node], scope: dict[str, Shape], *, times: int, depth: int) -> None:
        for node in body:
            self._count(node, times, depth)
            match node:
                case nodes.Output():
                    self._output(node, scope, times, depth)
                case nodes.If():
                    self._if(node, scope, times, depth)
                case nodes.For():
                    self._for(node, scope, times, depth)
                case _:
                    raise _refused(node)

    def _count(self, node: nodes.Node, times: int, depth: int) -> None:
        self._steps += times
        if depth > MOST_DEPTH:
            raise TemplateProblem(f"it is nested deeper than {MOST_DEPTH} levels", line=node.lineno)
        if self._steps > MOST_STEPS:
            raise TemplateProblem(
                f"it would take more than {MOST_STEPS:,} steps: a loop counts {MOST_ITEMS} times, nested ones multiply",
                line=node.lineno,
            )

    def _output(self, node: nodes.Output, scope: dict[str, Shape], times: int, depth: int) -> None:
        for part in node.nodes:
            self._count(part, times, depth)
            if isinstance(part, nodes.TemplateData):
                continue
            shape = self._value(part, scope, times, depth + 1)
            if isinstance(shape, ListOf | dict):
                raise TemplateProblem(
                    f"{describe(shape)} cannot be printed: go over it with `for`, or name one of its values",
                    line=part.lineno,
                )

    def _if(self, node: nodes.If, scope: dict[str, Shape], times: int, depth: int) -> None:
        self._value(node.test, scope, times, depth + 1)
        self._body(node.body, scope, times=times, depth=depth + 1)
        for other in node.elif_:
            self._count(other, times, depth)
            self._if(other, scope, times, depth)
        self._body(node.else_, scope, times=times, depth=depth + 1)

    def _for(self, node: nodes.For, scope: dict[str, Shape], times: int, depth: int) -> None:
        shape = self._value(node.iter, scope, times, depth + 1)
        if not isinstance(shape, ListOf):
            raise TemplateProblem(f"a loop needs a list, and this is {describe(shape)}", line=node.lineno)
        if node.recursive or not isinstance(node.target, nodes.Name):
            raise TemplateProblem("a loop has one name, and is not recursive", line=node.lineno)
        name = node.target.name
        if name in scope or name in _RESERVED or not name.isascii() or name.startswith("_"):
            raise TemplateProblem(f"a loop needs a name of its own: `{name}` is taken", line=node.lineno)
        inner = {**scope, name: shape.item, "loop": LOOP}
        if node.test is not None:
            self._value(node.test, {**scope, name: shape.item}, times * MOST_ITEMS, depth + 1)
        self._body(node.body, inner, times=times * MOST_ITEMS, depth=depth + 1)
        self._body(node.else_, scope, times=times, depth=depth + 1)

    def _value(self, node: nodes.Node, scope: dict[str, Shape], times: int, depth: int) -> Shape:
        """Return the shape of an expression."""
        self._count(node, times, depth)

        match node:
            case nodes.Name(ctx="load"):
                return _named(node, scope)
            case nodes.Const():
                return _constant(node)
            case nodes.Filter():
                return self._filter(node, scope, times, depth)
            case _:
                return _composed(node, lambda each: self._value(each, scope, times, depth + 1))

    def _filter(self, node: nodes.Filter, scope: dict[str, Shape], times: int, depth: int) -> Shape:
        rule = FILTERS.get(node.name)
        if rule is None or node.node is None:
            raise TemplateProblem(
                f"there is no filter `{node.name}`; there are {', '.join(sorted(FILTERS))}", line=node.lineno
            )
        self._count(node, times * FILTER_STEPS, depth)
        taken = self._value(node.node, scope, times, depth + 1)
        if not _fits(taken, rule):
            raise TemplateProblem(f"the filter `{node.name}` cannot take {describe(taken)}", line=node.lineno)
        if node.kwargs or node.dyn_args or node.dyn_kwargs or not all(isinstance(a, nodes.Const) for a in node.args):
            raise TemplateProblem(f"what the filter `{node.name}` is given has to be written out", line=node.lineno)
        wrong = rule.check([argument.value for argument in node.args if isinstance(argument, nodes.Const)])
        if wrong:
            raise TemplateProblem(f"the filter `{node.name}` {wrong}", line=node.lineno)
        return rule.makes


def _named(node: nodes.Name, scope: Mapping[str, Shape]) -> Shape:
    if node.name not in scope:
        known = ", ".join(sorted(name for name in scope if name != "loop"))
        raise TemplateProblem(f"there is no `{node.name}`; there are {known}", line=node.lineno)
    return scope[node.name]


def _member(shape: Shape, name: str, node: nodes.Node) -> Shape:
    if not isinstance(shape, dict):
        raise TemplateProblem(f"`{name}` is asked of {describe(shape)}, which has no names", line=node.lineno)
    if name not in shape:
        raise TemplateProblem(f"there is no `{name}` in it; there are {', '.join(sorted(shape))}", line=node.lineno)
    return shape[name]


def _constant(node: nodes.Const) -> Shape:
    match node.value:
        case str():
            return TEXT
        case bool() | int():
            return NUMBER
        case _:
            raise TemplateProblem("a value that is written out is a text or a whole number", line=node.lineno)


def _composed(node: nodes.Node, shape: Callable[[nodes.Node], Shape]) -> Shape:
    """Return the shape of an expression that is made of others, which `shape` looks at."""
    match node:
        case nodes.Getattr(ctx="load"):
            return _member(shape(node.node), node.attr, node)
        case nodes.Getitem(ctx="load", arg=nodes.Const(value=str() as key)):
            return _member(shape(node.node), key, node)
        case nodes.Not():
            shape(node.node)
            return NUMBER
        case nodes.And() | nodes.Or():
            return _either(shape(node.left), shape(node.right), node)
        case nodes.CondExpr():
            return _conditional(node, shape)
        case nodes.Compare():
            return _comparison(node, shape)
        case _:
            raise _refused(node)


def _conditional(node: nodes.CondExpr, shape: Callable[[nodes.Node], Shape]) -> Shape:
    if node.expr2 is None:
        raise TemplateProblem("`if` within an expression needs its `else`", line=node.lineno)
    shape(node.test)
    return _either(shape(node.expr1), shape(node.expr2), node)


def _either(one: Shape, other: Shape, node: nodes.Node) -> Shape:
    if one == other:
        return one
    if isinstance(one, ListOf | dict) or isinstance(other, ListOf | dict):
        raise TemplateProblem(
            f"it would be {describe(one)} or {describe(other)}: they need to be alike", line=node.lineno
        )
    return EITHER


def _comparison(node: nodes.Compare, shape: Callable[[nodes.Node], Shape]) -> Shape:
    left = shape(node.expr)
    for operand in node.ops:
        right = shape(operand.expr)
        if operand.op in _ORDERED and (left, right) != (NUMBER, NUMBER):
            raise TemplateProblem("only numbers can be told apart by their size", line=node.lineno)
        if operand.op in {"in", "notin"} and (
            left != TEXT or not (right == TEXT or (isinstance(right, ListOf) and right.item == TEXT))
        ):
            raise TemplateProblem("`in` looks for a text in a text, or in a list of texts", line=node.lineno)
        left = right
    return NUMBER


def _fits(shape: Shape, rule: FilterRule) -> bool:
    return any(
        shape == taken or (taken == LIST and isinstance(shape, ListOf) and shape.item == TEXT) for taken in rule.takes
    )


_WORDS: Final[Mapping[type[nodes.Node], str]] = {
    nodes.Call: "a call",
    nodes.Macro: "a macro",
    nodes.CallBlock: "a call block",
    nodes.FilterBlock: "a filter block",
    nodes.Assign: "`set`",
    nodes.AssignBlock: "`set`",
    nodes.Include: "`include`",
    nodes.Import: "`import`",
    nodes.FromImport: "`import`",
    nodes.Extends: "`extends`",
    nodes.Block: "`block`",
    nodes.With: "`with`",
    nodes.ScopedEvalContextModifier: "`autoescape`",
    nodes.Test: "a test with `is`",
    nodes.Concat: "`~`",
    nodes.Getitem: "an index",
    nodes.BinExpr: "arithmetic",
    nodes.UnaryExpr: "arithmetic",
    nodes.Literal: "a list, tuple or dictionary that is written out",
}


def _refused(node: nodes.Node) -> TemplateProblem:
    word = next((word for kind, word in _WORDS.items() if isinstance(node, kind)), type(node).__name__)
    return TemplateProblem(
        f"{word} is not part of this language; it has `if`, `for`, comparisons, `and`, `or`, `not` and filters",
        line=node.lineno,
    )
