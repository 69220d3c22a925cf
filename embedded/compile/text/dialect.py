"""MySQL as this backend reads it: sqlglot's dialect, with calls that stay as they are written.

sqlglot turns functions into nodes of its own, so that it can write them for another database, and knows words and
operators of all databases. Here a call is a name and its arguments in order, but for those that have a syntax of their
own, and a word that MySQL does not reserve is a name.
"""

from __future__ import annotations

from typing import Any, ClassVar

from sqlglot import TokenType, exp
from sqlglot.dialects.mysql import MySQL
from sqlglot.parsers.mysql import MySQLParser

from embedded.compile.errors import unsupported
from embedded.compile.text.keywords import INTERVAL_UNITS, RESERVED, keywords

_OPERATORS = keywords("|| && >= <= <> != := <=> -> ->> @@")
_NOT_RESERVED = keywords(
    "ANY SOME ESCAPE END OFFSET FIRST FULL LATERAL NEXT ROLLUP WINDOW MEMBER OF DATE DATETIME TIME TIMESTAMP YEAR JSON "
    "NCHAR SIGNED UNSIGNED TEXT ENUM BIT BOOL BOOLEAN UNKNOWN UUID"
)
"""Words with a meaning of their own to the parser that may also be names."""

_UTC = {"UTC_DATE": TokenType.UTC_DATE, "UTC_TIME": TokenType.UTC_TIME, "UTC_TIMESTAMP": TokenType.UTC_TIMESTAMP}
WITHOUT_PARENTHESES: dict[TokenType, type[Any]] = {
    **MySQLParser.NO_PAREN_FUNCTIONS,
    TokenType.UTC_DATE: exp.UtcDate,
    TokenType.UTC_TIME: exp.UtcTime,
    TokenType.UTC_TIMESTAMP: exp.UtcTimestamp,
}
"""Functions that may be called so."""

_WITH_SYNTAX = keywords(
    "CAST CHAR CONVERT EXTRACT GROUP_CONCAT JSON_TABLE MATCH POSITION SUBSTR SUBSTRING TRIM WEIGHT_STRING"
)
"""Calls that have more in their parentheses than arguments."""

_LITERAL_TYPES = frozenset((TokenType.DATE, TokenType.TIME, TokenType.TIMESTAMPTZ))


def _is_read(word: str, token: TokenType) -> bool:
    """Whether the tokenizer knows a word of sqlglot's as more than a name."""
    parts = word.split()
    return (
        word in _OPERATORS or token is TokenType.INTRODUCER or all(p in RESERVED or p in _NOT_RESERVED for p in parts)
    )


class _Parser(MySQLParser):
    FUNCTIONS: ClassVar = {name: MySQLParser.FUNCTIONS[name] for name in ("COUNT", "SUM", "AVG", "MIN", "MAX")}
    FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {
        **{name: MySQLParser.FUNCTION_PARSERS[name] for name in _WITH_SYNTAX},
        "ROW": lambda self: self._parse_row_constructor(),
        "TIMESTAMPADD": lambda self: self._parse_with_unit(),
        "TIMESTAMPDIFF": lambda self: self._parse_with_unit(),
    }
    FUNC_TOKENS: ClassVar = MySQLParser.FUNC_TOKENS | {TokenType.DEFAULT}
    NO_PAREN_FUNCTIONS: ClassVar = WITHOUT_PARENTHESES
    NO_PAREN_FUNCTION_PARSERS: ClassVar = {
        "ANY": lambda self: self._parse_any(),
        "CASE": lambda self: self._parse_case(),
    }
    LAMBDAS: ClassVar[dict[TokenType, Any]] = {}
    COLUMN_OPERATORS: ClassVar = {
        TokenType.DOT: None,
        TokenType.ARROW: lambda self, *sides: self._parse_arrow("JSON_ARROW", exp.JSONExtract, *sides),
        TokenType.DARROW: lambda self, *sides: self._parse_arrow("JSON_UNQUOTE_ARROW", exp.JSONExtractScalar, *sides),
    }
    CAST_COLUMN_OPERATORS: ClassVar[set[TokenType]] = set()

    def _parse_arrow(self, name: str, otherwise: type[exp.Func], this: exp.Expr, path: exp.Expr) -> exp.Expr:
        """column -> path, as the call of a function; MySQL has nothing else there."""
        if isinstance(this, exp.Column) and isinstance(path, exp.Literal) and path.is_string:
            return self.expression(exp.Anonymous(this=name, expressions=[this, path]))
        return self.expression(otherwise(this=this, expression=path))

    def _parse_row_constructor(self) -> exp.Expr:
        parts = self._parse_csv(self._parse_assignment)
        return exp.Paren(this=parts[0]) if len(parts) == 1 else exp.Tuple(expressions=parts)

    def _parse_with_unit(self) -> exp.Expr:
        """name(unit, ...)."""
        name, unit = self._tokens[self._index - 2].text, self._parse_var(any_token=True)
        rest = self._parse_csv(self._parse_assignment) if self._match(TokenType.COMMA) else []
        return self.expression(exp.Anonymous(this=name, expressions=[unit, *rest]))

    def _parse_any(self) -> exp.Expr | None:
        """ANY (query); alone it is a name."""
        if not self._match(TokenType.L_PAREN, advance=False):
            self._retreat(self._index - 1)
            return None
        return self.expression(exp.Any(this=self._parse_bitwise()))

    def _parse_case(self) -> exp.Expr:
        """CASE, whose results may be assignments."""
        subject, default = self._parse_assignment(), None
        branches = []
        while self._match(TokenType.WHEN):
            test = self._parse_assignment()
            if not self._match(TokenType.THEN):
                self.raise_error("Expected THEN after WHEN")
            branches.append(self.expression(exp.If(this=test, true=self._parse_assignment())))
        if self._match(TokenType.ELSE):
            default = self._parse_assignment()
        if not self._match(TokenType.END) or not branches:
            self.raise_error("Expected END after CASE")
        return self.expression(exp.Case(this=subject, ifs=branches, default=default))

    def _parse_interval(self, require_interval: bool = True, parse_function_unit: bool = True) -> exp.Interval | None:
        """INTERVAL amount unit."""
        if not self._match(TokenType.INTERVAL):
            return None
        amount = self._parse_bitwise()
        if isinstance(amount, exp.Tuple):
            raise unsupported("INTERVAL()", "use CASE")
        if amount is None or not self._match_texts(INTERVAL_UNITS):
            self.raise_error("Expected a unit after INTERVAL")
        elif amount.is_number:
            amount = exp.Literal.string(amount.to_py())  # as the data dictionary has always stored it
        return self.expression(exp.Interval(this=amount, unit=exp.Var(this=self._prev.text.upper())))

    def _parse_type(self, parse_interval: bool = True, fallback_to_identifier: bool = False) -> exp.Expr | None:
        if self._match(TokenType.BINARY):
            return self.expression(exp.Cast(this=self._parse_unary(), to=exp.DataType(this=exp.DType.BINARY)))
        return super()._parse_type(parse_interval, fallback_to_identifier)

    def _parse_types(self, check_func: bool = False, *arguments: Any, **options: Any) -> exp.Expr | None:
        """A type. In an expression (`check_func`) only DATE, TIME and TIMESTAMP begin a literal."""
        if check_func and not (self._curr.token_type in _LITERAL_TYPES and self._next.token_type is TokenType.STRING):
            return None
        return super()._parse_types(check_func, *arguments, **options)

    def _parse_csv(self, parse_method: Any, sep: TokenType = TokenType.COMMA) -> list[Any]:
        items: list[Any] = super()._parse_csv(parse_method, sep)
        if self._prev.token_type is sep:
            self.raise_error("Expected an item after the comma")
        return items

    def _parse_ordered(self, parse_method: Any = None) -> exp.Ordered | None:
        """An item of ORDER BY; there is no NULLS FIRST."""
        key = self._parse_disjunction()
        if key is None:
            return None
        ascending = self._match(TokenType.ASC)
        descending = not ascending and self._match(TokenType.DESC)
        desc = descending if ascending or descending else None
        return self.expression(exp.Ordered(this=key, desc=desc, nulls_first=not descending))

    def _parse_insert(self) -> exp.Insert | exp.MultitableInserts:
        """The name of the new row comes after AS: without it a misplaced word, such as DELAY, would be one."""
        insert = super()._parse_insert()
        rows = insert.args.get("expression")
        if isinstance(rows, exp.Values) and (alias := rows.args.get("alias")) is not None:
            start = next(alias.find_all(exp.Identifier)).meta["start"]
            index = next(index for index, token in enumerate(self._tokens) if token.start == start)
            if self._tokens[index - 1].token_type is not TokenType.ALIAS:
                self.raise_error("Expected AS", self._tokens[index])
        return insert

    def _parse_on_conflict(self) -> exp.OnConflict | None:
        return super()._parse_on_conflict() if self._match_text_seq("ON", "DUPLICATE", advance=False) else None

    def _parse_named_window(self) -> exp.Expr | None:
        if self._next.token_type is not TokenType.ALIAS:
            self.raise_error("Expected AS after the name of a window")
        return super()._parse_named_window()

    def _parse_constraint(self) -> None:
        """None is among the columns that an INSERT names."""

    def _parse_field_def(self) -> exp.Expr | None:
        """A column that an INSERT names, perhaps with its table's name."""
        name = self._parse_id_var()
        while self._match(TokenType.DOT):
            name = self._parse_id_var()
        return name


class _PipesParser(_Parser):
    """`||` joins strings and binds like `*`. It should bind tighter, so it is refused after such an operator."""

    FACTOR: ClassVar = {**_Parser.FACTOR, TokenType.DPIPE: exp.DPipe}


class EmbeddedMySQL(MySQL):
    """The dialect."""

    class Tokenizer(MySQL.Tokenizer):
        KEYWORDS: ClassVar = {
            **{word: token for word, token in MySQL.Tokenizer.KEYWORDS.items() if _is_read(word, token)},
            **_UTC,
        }
        COMMANDS: ClassVar[set[TokenType]] = set()

    Parser = _Parser
    SUPPORTS_VALUES_DEFAULT = False  # DEFAULT is a name, and may be called


class EmbeddedMySQLPipes(EmbeddedMySQL):
    """The dialect under sql_mode PIPES_AS_CONCAT."""

    Parser = _PipesParser
