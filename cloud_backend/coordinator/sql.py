"""SQL as a second front door, on the cloud side: a stated subset of the verbs, anything else refused by name.

    SELECT columns, expressions AS name FROM stream [WHERE condition]
    SELECT key columns, aggregates [AS name] FROM stream [WHERE condition]
        GROUP BY window, key columns [HAVING condition]

Windows: TUMBLE(1 SECOND), TUMBLE(1 DAY, 'Europe/Berlin') (also 1 WEEK, 1 MONTH; local calendar), HOP(10 SECONDS, 1
SECOND) (size, then step), SESSION(5 MINUTES). Aggregates: COUNT(*),
COUNT(x), COUNT(DISTINCT x), SUM, AVG, MIN, MAX, VAR_POP, STDDEV_POP, QUANTILE(x, 0.9), MEDIAN, FIRST, LAST, each of a
column or an expression, of some rows with FILTER (WHERE condition), and in arithmetic with each other; alone and
without AS they are called avg_v, count and so on. Conditions and expressions: columns, numbers, text, TRUE, FALSE,
+ - * / %, ||, comparisons, AND OR NOT, BETWEEN, IN (constants), LIKE, IS NULL (a float that is NaN), COALESCE, CASE
WHEN, CAST, ABS SQRT FLOOR CEIL ROUND EXP LN POWER SIN COS TAN ATAN2 RADIANS DEGREES LEAST GREATEST LOWER UPPER LENGTH
TRIM REPLACE CONCAT SPLIT_PART STARTS_WITH ENDS_WITH CONTAINS. A row of a windowed query always has the key,
window_start, window_end and complete, named or not.

sqlglot reads the text; this file turns its tree into the same verbs a program calls, so both doors mean the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import NoReturn

import sqlglot
from sqlglot import TokenType
from sqlglot import expressions as ast
from sqlglot.errors import ParseError, TokenError

from shared.errors import UsageError
from shared.language.aggregates import Parameters
from shared.plan.operators import Sync
from shared.stream import functions
from shared.stream.drafts import current_program, located
from shared.stream.formulas import Formula, Operand, call, col, expression_of
from shared.stream.measures import measure
from shared.stream.stream import Stream
from shared.stream.windowed import WindowedStream

TEXT_MAX = 100_000
# What a query may cost before anything is built from it. Compiling one of these sizes takes under half a second here.
TOKENS_MAX = 2000
NODES_MAX = 2000  # of the expressions it means: x BETWEEN a AND b means x twice, x IN (a, b, c) three times
_SIGNS = re.compile(r"'(?:[^']|'')*'|\w+|[^\w\s]")
DEPTH_MAX = 60  # a chain of AND, OR or + is as deep as it is long; a plan is read back up to 64
UNITS = {
    "MICROSECOND": "us", "MILLISECOND": "ms", "SECOND": "s", "MINUTE": "m", "HOUR": "h", "DAY": "d",
    "WEEK": "w", "MONTH": "mo",
}  # fmt: skip
WINDOWS = ("TUMBLE", "HOP", "SESSION")
CLAUSES = {"expressions", "from_", "where", "group", "having"}
GROUP_CLAUSES = {"expressions"}

BINARY: dict[type[ast.Expression], Callable[[Formula, Formula], Formula]] = {
    ast.Add: lambda left, right: left + right,
    ast.Sub: lambda left, right: left - right,
    ast.Mul: lambda left, right: left * right,
    ast.Div: lambda left, right: left / right,
    ast.Mod: lambda left, right: left % right,
    ast.LT: lambda left, right: left < right,
    ast.LTE: lambda left, right: left <= right,
    ast.GT: lambda left, right: left > right,
    ast.GTE: lambda left, right: left >= right,
    ast.EQ: lambda left, right: left == right,
    ast.NEQ: lambda left, right: left != right,
    ast.And: lambda left, right: left & right,
    ast.Or: lambda left, right: left | right,
    ast.Pow: lambda left, right: left**right,
    ast.DPipe: lambda left, right: call("concat", left, right),
    ast.Atan2: lambda left, right: call("atan2", left, right),
    ast.StartsWith: lambda left, right: call("starts_with", left, right),
    ast.EndsWith: lambda left, right: call("ends_with", left, right),
    ast.Contains: lambda left, right: call("contains", left, right),
}
FUNCTIONS: dict[type[ast.Expression], str] = {
    ast.Abs: "abs", ast.Sqrt: "sqrt", ast.Floor: "floor", ast.Ceil: "ceil", ast.Round: "round", ast.Exp: "exp",
    ast.Ln: "log", ast.Lower: "lower", ast.Upper: "upper", ast.Length: "length", ast.Trim: "trim", ast.Sin: "sin",
    ast.Cos: "cos", ast.Tan: "tan", ast.Radians: "radians", ast.Degrees: "degrees", ast.IsNan: "is_missing",
}  # fmt: skip
AGGREGATES: dict[type[ast.Expr], str] = {
    ast.Sum: "sum", ast.Avg: "mean", ast.Min: "min", ast.Max: "max", ast.VariancePop: "variance", ast.StddevPop: "std",
    ast.First: "first", ast.Last: "last",
}  # fmt: skip
# Clauses that a query does not know -> the verb that does it.
VERBS = {
    "joins": ".join(other, within=...) or .with_latest(other)",
    "windows": ".sliding(...)",
    "laterals": ".apply(...)",
    "distinct": ".distinct(columns, within=...), or COUNT(DISTINCT x) in a window",
    "match": ".followed_by(other, within=...) for one thing after another, .absent(...) for a silence",
    "with_": "a stream of its own for each query, handed over as rs.sql(query, name=stream)",
}
KINDS = {
    "DOUBLE": "float64", "FLOAT": "float32", "BIGINT": "int64", "INT": "int32", "SMALLINT": "int16", "TINYINT": "int8",
    "BOOLEAN": "bool", "TEXT": "str", "VARCHAR": "str",
}  # fmt: skip


@located
def sql(query: str, **streams: Stream) -> Stream:
    """The stream that a query describes. FROM names one of `streams`, or a sync edge of the program being written."""
    return _Query(_parsed(query), streams).stream()


def _parsed(query: str) -> ast.Select:
    if len(query) > TEXT_MAX:
        raise UsageError(f"a query has at most {TEXT_MAX} characters", code="sql-syntax")
    try:
        tree = sqlglot.parse_one(_durations_quoted(query))
    except (ParseError, TokenError, RecursionError) as error:
        if "MATCH_RECOGNIZE" in query.upper():  # other dialects have it, the reader's own has not
            _unsupported("MATCH_RECOGNIZE", VERBS["match"])
        raise UsageError(f"not SQL that can be read: {str(error).splitlines()[0]}", code="sql-syntax") from None
    if tree is None or isinstance(tree, ast.Alias | ast.Condition):
        raise UsageError("a query starts with SELECT", code="sql-syntax")
    if not isinstance(tree, ast.Select):
        _unsupported(tree.key.upper())
    _check_size(tree)
    return tree


def _check_size(tree: ast.Select) -> None:
    """Refuse what would take long or too much memory to build, from the tree alone."""
    if _nodes(tree, 0) > NODES_MAX:
        raise UsageError(f"a query means at most {NODES_MAX} operations; ask less at once", code="sql-size")


def _nodes(tree: ast.Expr, depth: int) -> int:
    """How many operations an expression means, those counted again that are evaluated again."""
    if depth > DEPTH_MAX:
        raise UsageError(
            f"a query is at most {DEPTH_MAX} operations deep, a chain of AND, OR or + being as deep as it is long; "
            "shorten it, or use IN",
            code="sql-size",
        )
    parts = [_nodes(child, depth + 1) for child in tree.iter_expressions()]
    count = 1 + sum(parts)
    if isinstance(tree, ast.Between | ast.In) and parts:
        again = 1 if isinstance(tree, ast.Between) else len(tree.expressions) - 1
        count += max(again, 0) * parts[0]
    return min(count, NODES_MAX + 1)


def _durations_quoted(query: str) -> str:
    """`1 SECOND` becomes '1s', and SESSION( a plain function: neither is an expression of standard SQL."""
    # Roughly first: reading 12 KB of signs into tokens takes 30 ms of the interpreter, counting them does not.
    tokens = [] if len(_SIGNS.findall(query)) > 2 * TOKENS_MAX else sqlglot.tokenize(query)
    if not tokens or len(tokens) > TOKENS_MAX:
        raise UsageError(f"a query has at most {TOKENS_MAX} words and signs; ask less at once", code="sql-size")
    parts: list[str] = []
    position = 0
    for first, second in pairwise(tokens):
        unit = UNITS.get(second.text.upper().removesuffix("S"))
        if first.token_type is TokenType.NUMBER and unit is not None:
            parts += [query[position : first.start], f"'{first.text}{unit}'"]
            position = second.end + 1
        elif first.text.upper() == "SESSION" and second.token_type is TokenType.L_PAREN:
            parts += [query[position : first.start], '"SESSION"']
            position = first.end + 1
    return "".join(parts) + query[position:]


def _unsupported(what: str, verb: str = "verbs") -> NoReturn:
    raise UsageError(
        f"{what} is not in the subset of SQL that streams know; see `resurge.sql`, or write it with {verb}",
        code="sql-unsupported",
    )


def _refuse_clauses(tree: ast.Expression, allowed: set[str]) -> None:
    for name, value in tree.args.items():
        if value and name not in allowed:
            _unsupported(name.strip("_").replace("_", " ").upper().removesuffix("S"), VERBS.get(name, "verbs"))


class _Query:
    def __init__(self, tree: ast.Select, streams: Mapping[str, Stream]) -> None:
        _refuse_clauses(tree, CLAUSES)
        self.tree = tree
        self.streams = streams
        self.computed: dict[str, Formula] = {}  # arguments of aggregates that are more than a column
        self.aggregates: dict[str, Formula] = {}
        self.selecting = False  # in SELECT an aggregate is computed, in HAVING it is named
        self.names: dict[str, str] = {}  # an aggregate's text -> its column, for HAVING
        self.known: tuple[str, ...] = ()  # the columns of the stream, which computed ones must not be called like

    def stream(self) -> Stream:
        source = self._source()
        where = self.tree.args.get("where")
        if where is not None:
            source = source.where(self._formula(where.this))
        group = self.tree.args.get("group")
        if group is None:
            return self._projected(source)
        return self._windowed(source, group)

    def _source(self) -> Stream:
        clause = self.tree.args.get("from_")
        if clause is None or not isinstance(clause.this, ast.Table):
            _unsupported("a query without FROM stream" if clause is None else "a subquery")
        if clause.this.alias:
            raise UsageError(
                f"a stream keeps its name in a query: write FROM {clause.this.name} without {clause.this.alias!r}, and "
                "columns without a stream before them",
                code="sql-unsupported",
            )
        _refuse_clauses(clause.this, {"this"})
        name = clause.this.name
        known = dict(self.streams)
        program = current_program()
        if program is not None:
            for made in program.drafts:
                if isinstance(made.operator, Sync):
                    known.setdefault(made.operator.name, Stream(made))
        if name not in known:
            raise UsageError(
                f"FROM names {name!r}, which is no stream here (has: {', '.join(known) or 'none'}); hand it over as "
                f"rs.sql(query, {name}=stream)",
                code="sql-stream",
            )
        return known[name]

    # --- Without a window ---------------------------------------------------------------------------------------------

    def _projected(self, source: Stream) -> Stream:
        if self.tree.args.get("having") is not None:
            _unsupported("HAVING without GROUP BY")
        if any(isinstance(item, ast.Star) for item in self.tree.expressions):
            if len(self.tree.expressions) > 1:
                _unsupported("* beside other columns")
            return source
        chosen: dict[str, Formula] = {}
        for item in self.tree.expressions:
            if item.find(ast.Window):
                _unsupported(item.sql())
            if item.find(ast.AggFunc):
                raise UsageError(
                    f"{item.sql()} aggregates without a window; a stream does not end. Add GROUP BY TUMBLE(1 MINUTE)",
                    code="sql-window",
                )
            name = self._name(item)
            if name in chosen:
                raise _twice(name)
            chosen[name] = self._formula(item.unalias())
        return source.select(**chosen)

    def _name(self, item: ast.Expression) -> str:
        if not item.alias_or_name:
            raise UsageError(f"{item.sql()} needs a name: write {item.sql()} AS name", code="sql-name")
        return str(item.alias_or_name)

    # --- With a window ------------------------------------------------------------------------------------------------

    def _windowed(self, source: Stream, group: ast.Group) -> Stream:
        _refuse_clauses(group, GROUP_CLAUSES)
        windows = [item for item in group.expressions if isinstance(item, ast.Anonymous)]
        key = tuple(item.name for item in group.expressions if isinstance(item, ast.Column))
        if len(windows) != 1 or len(windows) + len(key) != len(group.expressions):
            raise UsageError(
                f"GROUP BY takes one window ({', '.join(WINDOWS)}) and columns, not {group.sql()}", code="sql-window"
            )
        self.known = source.schema.names
        for item in self.tree.expressions:
            self._collect(item, key)
        if self.computed:
            source = source.extend(**self.computed)
        found = _window(source.key_by(*key), windows[0]).aggregate(**self.aggregates)
        having = self.tree.args.get("having")
        return found if having is None else found.where(self._formula(having.this))

    def _collect(self, item: ast.Expression, key: tuple[str, ...]) -> None:
        bare = item.unalias()
        if isinstance(bare, ast.Column):
            if bare.name not in (*key, "window_start", "window_end", "complete"):
                raise UsageError(f"{bare.name!r} is neither aggregated nor in GROUP BY", code="sql-group")
            if item.alias not in ("", bare.name):
                _unsupported(f"another name ({item.alias}) for the key column {bare.name}")
            return
        if isinstance(bare, ast.AggFunc | ast.Filter):
            found, name = self._aggregate(bare)
        else:
            if not isinstance(bare, ast.Expression) or bare.find(ast.AggFunc) is None:
                _unsupported(f"{bare.sql()} in a windowed query")
            self.selecting = True
            found, name = self._formula(bare), self._name(item)
            self.selecting = False
        name = item.alias or name
        if name in self.aggregates:
            raise _twice(name)
        self.aggregates[name] = found
        self.names[bare.sql()] = name

    def _aggregate(self, tree: ast.Expr) -> tuple[Formula, str]:
        """An aggregate and what it is called if nobody names it."""
        condition = None
        if isinstance(tree, ast.Filter):
            condition = self._formula(tree.expression.this)
            tree = tree.this
        function, column, parameters, name = self._function(tree)
        return measure(function, () if column is None else (column,), parameters, where=condition), name

    def _function(self, tree: ast.Expr) -> tuple[str, str | None, Parameters, str]:
        """The aggregate's function, its column, its parameters, its own name."""
        if isinstance(tree, ast.Count):
            return self._count(tree)
        if isinstance(tree, ast.Quantile | ast.ApproxQuantile):
            share = tree.args.get("quantile")
            if not isinstance(share, ast.Literal) or share.is_string:
                _unsupported("a quantile whose share is not a number")
            column = self._argument(tree.this)
            return "quantile", column, (("q", float(share.name)),), f"quantile_{column}"
        if isinstance(tree, ast.Median):
            column = self._argument(tree.this)
            return "quantile", column, (("q", 0.5),), f"median_{column}"
        function = AGGREGATES.get(type(tree))
        if function is None:
            _unsupported(f"{tree.sql()} in a windowed query")
        column = self._argument(tree.this)
        return function, column, (), f"{tree.key.removesuffix('pop')}_{column}"

    def _count(self, tree: ast.Count) -> tuple[str, str | None, Parameters, str]:
        if isinstance(tree.this, ast.Star):
            return "count", None, (), "count"
        if isinstance(tree.this, ast.Distinct):
            if len(tree.this.expressions) != 1:
                _unsupported("COUNT(DISTINCT) of several columns")
            column = self._argument(tree.this.expressions[0])
            return "distinct", column, (), f"distinct_{column}"
        column = self._argument(tree.this)
        return "count", column, (), f"count_{column}"

    def _argument(self, tree: ast.Expression | None) -> str:
        if isinstance(tree, ast.Column):
            return str(tree.name)
        number = len(self.computed) + 1
        while f"argument_{number}" in (*self.known, *self.computed):
            number += 1
        name = f"argument_{number}"
        self.computed[name] = self._formula(tree)
        return name

    # --- Expressions --------------------------------------------------------------------------------------------------

    def _formula(self, tree: ast.Expression | None) -> Formula:
        if tree is None:  # sqlglot reads COUNT() and the like
            raise UsageError("a function has nothing between its brackets; name a column", code="sql-syntax")
        if isinstance(tree, ast.AggFunc | ast.Filter):
            if self.selecting:
                return self._aggregate(tree)[0]
            known = self.names.get(tree.sql())
            if known is None:
                raise UsageError(
                    f"HAVING {tree.sql()}: name it in SELECT first, like {tree.sql()} AS n, then HAVING n ...",
                    code="sql-having",
                )
            return col[known]
        if type(tree) in BINARY:
            return BINARY[type(tree)](self._formula(tree.this), self._formula(tree.expression))
        if isinstance(tree, ast.Round) and tree.args.get("decimals") is not None:
            inner = tree.this.sql()
            raise UsageError(
                f"ROUND takes one value and rounds to whole numbers: write ROUND({inner} * 10) / 10 for one digit",
                code="sql-unsupported",
            )
        if type(tree) in FUNCTIONS:
            _refuse_clauses(tree, {"this"})
            return call(FUNCTIONS[type(tree)], self._formula(tree.this))
        match tree:
            case ast.Column():
                return col[tree.name]
            case ast.Literal():
                return Formula(expression_of(_constant(tree)))
            case ast.Boolean():
                return Formula(expression_of(bool(tree.this)))
            case ast.Paren():
                return self._formula(tree.this)
            case ast.Not():
                return ~self._formula(tree.this)
            case ast.Neg():
                return -self._formula(tree.this)
            case ast.Like():
                found = call("like", self._formula(tree.this), self._formula(tree.expression))
                return ~found if tree.args.get("negate") else found
            case ast.Is(expression=ast.Null()):
                return call("is_missing", self._formula(tree.this))
            case ast.Coalesce():
                return self._coalesced([tree.this, *tree.expressions])
            case ast.Concat():
                return functions.concat(*(self._formula(part) for part in tree.expressions))
            case ast.Replace():
                old, new = self._formula(tree.expression), self._formula(tree.args["replacement"])
                return call("replace", self._formula(tree.this), old, new)
            case ast.SplitPart():
                number = tree.args["part_index"]
                if not (isinstance(number, ast.Literal) and number.name.isdigit() and int(number.name) > 0):
                    _unsupported("SPLIT_PART with a number that is none from 1", "rs.split(text, separator, number)")
                separator = self._formula(tree.args["delimiter"])
                return call("split", self._formula(tree.this), separator, int(number.name) - 1)
            case ast.Least() | ast.Greatest():
                function = "minimum" if isinstance(tree, ast.Least) else "maximum"
                found = self._formula(tree.this)
                for part in tree.expressions:
                    found = call(function, found, self._formula(part))
                return found
            case ast.Between():
                value = self._formula(tree.this)
                return (value >= self._formula(tree.args["low"])) & (value <= self._formula(tree.args["high"]))
            case ast.In() if tree.expressions:
                value = self._formula(tree.this)
                choices = [value == self._formula(choice) for choice in tree.expressions]
                return _any(choices)
            case ast.Case() if tree.this is None and tree.args.get("default") is not None:
                answer: Operand = self._formula(tree.args["default"])
                for branch in reversed(tree.args["ifs"]):
                    answer = call("if_else", self._formula(branch.this), self._formula(branch.args["true"]), answer)
                return answer if isinstance(answer, Formula) else Formula(expression_of(answer))
            case ast.Cast() if tree.to.sql() not in KINDS:
                raise UsageError(
                    f"{tree.to.sql()} is no kind of column here; CAST to one of {', '.join(KINDS)}",
                    code="sql-unsupported",
                )
            case ast.Cast():
                return self._formula(tree.this).cast(KINDS[tree.to.sql()])
        _unsupported(tree.sql())

    def _coalesced(self, choices: list[ast.Expression]) -> Formula:
        """The first float that is not missing."""
        found = self._formula(choices[-1])
        for choice in reversed(choices[:-1]):
            value = self._formula(choice)
            found = call("if_else", call("is_missing", value), found, value)
        return found


def _twice(name: str) -> UsageError:
    return UsageError(f"two columns of the query are called {name!r}; give one another name with AS", code="sql-name")


def _any(conditions: list[Formula]) -> Formula:
    """By halves, so that many conditions are not a deep expression."""
    if len(conditions) == 1:
        return conditions[0]
    half = len(conditions) // 2
    return _any(conditions[:half]) | _any(conditions[half:])


def _constant(tree: ast.Literal) -> int | float | str:
    if tree.is_string:
        return str(tree.name)
    return int(tree.name) if tree.name.isdigit() else float(tree.name)


def _window(stream: Stream, tree: ast.Anonymous) -> WindowedStream:
    name = tree.name.upper()
    lengths = [item.name for item in tree.expressions if isinstance(item, ast.Literal) and item.is_string]
    if name not in WINDOWS or len(lengths) != len(tree.expressions):
        _unsupported(tree.sql())
    match (name, lengths):
        case ("TUMBLE", [size]):
            return stream.tumbling(size)
        case ("TUMBLE", [size, zone]):
            return stream.tumbling(size, zone=zone)
        case ("HOP", [size, every]):
            return stream.hopping(size, every=every)
        case ("SESSION", [gap]):
            return stream.session(gap)
    raise UsageError(
        "windows are TUMBLE(size), TUMBLE(1 DAY, 'zone'), HOP(size, step) and SESSION(gap)", code="sql-window"
    )
