"""CREATE QUEUE [IF NOT EXISTS] q (columns and keys) [WITH (...)] [COMMENT 'vt_...'], ALTER QUEUE; CREATE TABLE's items.

Items are cut out of the text, not parsed: only names, and the words that define the kind of item, matter.
"""

from __future__ import annotations

from engine.model.errors import InvalidOption
from engine.model.key_range import VINDEX
from engine.model.marked_name import NAME_KEY
from engine.model.option_values import OptionValue
from engine.model.options import GROUPS_ONLY, OF_GROUPS, OPTIONS, from_comment_text
from engine.model.queue import QUEUE_MARK
from rewriter.errors import UnsupportedSql
from rewriter.grammar.ack import skip_group
from rewriter.grammar.statements import AlterQueue, ColumnItem, CreateQueue, Item, KeyItem
from rewriter.grammar.stream import take_new_options, take_options
from rewriter.text.tokens import Kind, Name, Token, TokenCursor, identifier_value, string_value, word_set

_KEY_WORDS = word_set("PRIMARY UNIQUE KEY INDEX FULLTEXT SPATIAL CONSTRAINT FOREIGN CHECK PERIOD")
_ALTERATIONS = "SET (option = value, ...), PAUSE, RESUME, ADD SHARDING KEY (column), DROP SHARDING KEY"
_EXAMPLE = "CREATE QUEUE needs columns: CREATE QUEUE q (user_id BIGINT, payload VARCHAR(256))"


def parse_create_queue(cursor: TokenCursor) -> CreateQueue:
    """What follows CREATE QUEUE."""
    if_not_exists = cursor.accept_words("IF", "NOT", "EXISTS")
    name = cursor.take_name()
    if not cursor.at_symbol("("):
        raise cursor.error(_EXAMPLE)
    items = take_items(cursor)
    options: dict[str, OptionValue] = {}
    while cursor.token is not None and not cursor.at_symbol(";"):
        more = _take_table_option(cursor)
        if twice := sorted(options.keys() & more.keys()):
            raise InvalidOption(f"option '{twice[0]}' is given twice")
        options |= more
    cursor.take_end()
    return CreateQueue(name, if_not_exists, items, options)


def parse_alter_queue(cursor: TokenCursor) -> AlterQueue:
    """What follows ALTER QUEUE."""
    name = cursor.take_name()
    options: dict[str, OptionValue | None]
    if cursor.accept_words("PAUSE"):
        options = {"paused": 1}
    elif cursor.accept_words("RESUME"):
        options = {"paused": 0}
    elif cursor.accept_words("SET") and cursor.at_symbol("("):
        options = take_new_options(cursor)
    elif cursor.accept_words("DROP", "SHARDING", "KEY"):
        options = {"sharding_key": None}
    elif cursor.accept_words("ADD", "SHARDING", "KEY"):
        options = {"sharding_key": _take_sharding_key(cursor)}
    else:
        raise cursor.error(f"ALTER QUEUE q takes one of {_ALTERATIONS}")
    cursor.take_end(f"ALTER QUEUE q takes one of {_ALTERATIONS}")
    return AlterQueue(name, options)


def _take_table_option(cursor: TokenCursor) -> dict[str, OptionValue]:
    if cursor.accept_words("WITH"):
        return take_options(cursor)
    if cursor.accept_words("SHARDING", "KEY"):
        return {"sharding_key": _take_sharding_key(cursor)}
    if cursor.accept_words("COMMENT"):
        cursor.accept_symbol("=")
        comment = cursor.accept_kind(Kind.STRING)
        if comment is None:
            raise cursor.error()
        return _comment_options(string_value(comment.text))
    raise cursor.error("after the columns: SHARDING KEY (column), WITH (option = value, ...)")


def _take_sharding_key(cursor: TokenCursor) -> str:
    """`(column) [USING vindex]`. Raises UnsupportedSql for a vindex that a database cannot compute."""
    cursor.take_symbol("(")
    column = cursor.take_identifier()
    if cursor.at_symbol(","):
        raise UnsupportedSql("A SHARDING KEY of several columns is not supported; name one")
    cursor.take_symbol(")")
    if cursor.accept_words("USING") and (vindex := cursor.take_identifier().lower()) != VINDEX:
        raise UnsupportedSql(
            f"SHARDING KEY USING {vindex} is not supported: the database computes a message's place, and can compute"
            f" {VINDEX} alone; leave USING out"
        )
    return column


def _comment_options(comment: str) -> dict[str, OptionValue]:
    """Options in Vitess's keys. Anything else is refused: the comment of a queue holds its options and no prose."""
    names = {option.key: name for name, option in OPTIONS.items() if name not in (*OF_GROUPS, *GROUPS_ONLY)}
    options: dict[str, OptionValue] = {}
    for piece in comment.split(","):
        key, is_pair, value = piece.partition("=")
        if piece == QUEUE_MARK or key == NAME_KEY:  # which table it was does not matter here
            continue
        if not is_pair or key not in names:
            raise InvalidOption(f"COMMENT of a queue: '{piece}' is not an option; allowed: {', '.join(sorted(names))}")
        if names[key] in options:
            raise InvalidOption(f"option '{key}' is given twice")
        options[names[key]] = from_comment_text(names[key], value)
    return options


def parse_create_table(sql: str) -> tuple[Name, tuple[Item, ...]]:
    """Name and items of a CREATE TABLE text, as databases print it; table options are passed over."""
    cursor = TokenCursor(sql)
    cursor.take_words("CREATE")
    cursor.accept_words("TEMPORARY")
    cursor.take_words("TABLE")
    return cursor.take_name(), take_items(cursor)


def take_items(cursor: TokenCursor) -> tuple[Item, ...]:
    """`(item, ...)`; a trailing comma is accepted."""
    cursor.take_symbol("(")
    items: list[Item] = []
    while not cursor.accept_symbol(")"):
        first = cursor.position
        while not (cursor.at_symbol(",") or cursor.at_symbol(")")):
            skip_group(cursor)
        if cursor.position == first:
            raise cursor.error()
        items.append(_item(cursor, first, cursor.position))
        if not cursor.accept_symbol(","):
            cursor.take_symbol(")")
            break
    return tuple(items)


def _item(cursor: TokenCursor, first: int, last: int) -> Item:
    tokens = cursor.tokens[first:last]
    text = cursor.slice(first, last)
    words, groups = _outline(tokens)
    if tokens[0].word in _KEY_WORDS:
        return KeyItem(text, words, _column_names(groups[0]) if groups else ())
    if tokens[0].kind not in (Kind.WORD, Kind.NAME) or len(tokens) < 2:
        cursor.position = first if len(tokens) > 1 else last
        raise cursor.error("a column needs a name and a type")
    definition = cursor.slice(first + 1, last)
    return ColumnItem(identifier_value(tokens[0]), text, definition, words[1:] if tokens[0].word else words)


def _outline(tokens: list[Token]) -> tuple[tuple[str, ...], list[list[Token]]]:
    """The bare words outside parentheses, and the outermost parenthesised groups."""
    words: list[str] = []
    groups: list[list[Token]] = []
    depth = 0
    for token in tokens:
        if token.kind is Kind.SYMBOL and token.text == ")":
            depth -= 1
        if depth:
            groups[-1].append(token)
        elif token.word:
            words.append(token.word)
        if token.kind is Kind.SYMBOL and token.text == "(":
            depth += 1
            if depth == 1:
                groups.append([])
    return tuple(words), groups


def _column_names(group: list[Token]) -> tuple[str, ...]:
    """The first name of each part of a key's column list; prefix lengths and ASC/DESC left out."""
    names: list[str] = []
    depth, expected = 0, True
    for token in group:
        if token.kind is Kind.SYMBOL:
            depth += {"(": 1, ")": -1}.get(token.text, 0)
            expected = expected or (token.text == "," and depth == 0)
        elif expected and depth == 0:
            names.append(identifier_value(token) if token.kind in (Kind.WORD, Kind.NAME) else token.text)
            expected = False
    return tuple(names)
