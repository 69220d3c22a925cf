"""Every function that compiled statements call, by the name they call it."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from rewriter.sqlite.errors import unsupported
from rewriter.sqlite.functions import date_formats, dates, exact_numbers, json_keys, locks, numbers, patterns, text
from rewriter.sqlite.functions import json as json_values
from rewriter.sqlite.functions.context import CallContext
from rewriter.sqlite.text.keywords import keywords
from rewriter.sqlite.values.store import StoreAs
from rewriter.sqlite.values.types import Kind, SqlType

Scalar = Callable[..., Any]


@lru_cache(maxsize=1024)
def _target(description: str) -> StoreAs:
    document, column = json.loads(description)
    sql_type = SqlType(**{**document, "kind": Kind(document["kind"]), "values": tuple(document["values"])})
    return StoreAs(sql_type, column)


def store(context: CallContext, value: Any, description: str) -> Any:
    """A value on its way into a column, where it is not a literal."""
    return _target(description)(value)


def _strict(function: Scalar) -> Scalar:
    """NULL in, NULL out."""

    def strict(context: CallContext, *args: Any) -> Any:
        if None in args:
            return None
        return function(context, *args)

    return strict


_NULL_AWARE: dict[str, Scalar] = {
    "change": numbers.change,
    "seen": numbers.seen,
    "not_null": numbers.not_null,
    "numbered": numbers.numbered,
    "concat_ws": text.concat_ws,
    "quote": text.quote,
    "elt": text.elt,
    "char": text.char,
    "json_object": json_values.json_object,
    "json_quote_value": json_values.json_quote_value,
    "set_last_insert_id": numbers.set_last_insert_id,
}

_STRICT: dict[str, Scalar] = {
    "store": store,
    "raise": numbers.raise_error,
    "signed": numbers.signed,
    "round": numbers.rounded,
    "truncate": numbers.truncated,
    "cast_decimal": numbers.cast_decimal,
    "scaled": numbers.scaled,
    "exact_add": exact_numbers.add,
    "exact_subtract": exact_numbers.subtract,
    "exact_multiply": exact_numbers.multiply,
    "exact_divide": exact_numbers.divide,
    "exact_quotient": exact_numbers.whole_quotient,
    "exact_modulo": exact_numbers.modulo,
    "exact_negate": exact_numbers.negate,
    "exact_absolute": exact_numbers.absolute,
    "exact_round": exact_numbers.rounded,
    "exact_whole": exact_numbers.whole,
    "exact_signed": exact_numbers.signed,
    "exact_unsigned": exact_numbers.unsigned,
    "exact_cast": exact_numbers.cast,
    "exact_scaled": exact_numbers.scaled,
    "exact_average": exact_numbers.average,
    "exact_from_text": exact_numbers.from_text,
    "exact_moment": exact_numbers.of_moment,
    "exact_floating": exact_numbers.floating,
    "exact_digits": exact_numbers.digits,
    "decimal_text": numbers.decimal_text,
    "exact": numbers.exact,
    "exact_text": numbers.exact_text,
    "double_text": numbers.double_text,
    "bits_text": numbers.bits_text,
    "unsigned": numbers.unsigned,
    "remainder": numbers.remainder,
    "unsigned_prefix": numbers.signed,
    "whole": numbers.whole,
    "shift_right": numbers.shift_right,
    "bit_count": numbers.bit_count,
    "sqrt": numbers.square_root,
    "pow": numbers.power,
    "exp": numbers.exponential,
    "ln": numbers.logarithm,
    "log": numbers.logarithm,
    "log2": numbers.binary_logarithm,
    "log10": numbers.decimal_logarithm,
    "rand": numbers.random_number,
    "uuid": numbers.uuid,
    "sleep": numbers.sleep,
    "hex_number": numbers.hex_number,
    "bin": numbers.binary_digits,
    "oct": numbers.octal_digits,
    "conv": numbers.convert_base,
    "lower": text.lower,
    "upper": text.upper,
    "concat_bytes": text.concat_bytes,
    "substring": text.substring,
    "left": text.left,
    "right": text.right,
    "locate": text.locate,
    "strcmp": text.strcmp,
    "find_in_set": text.find_in_set,
    "substring_index": text.substring_index,
    "lpad": text.lpad,
    "rpad": text.rpad,
    "repeat": text.repeat,
    "space": text.space,
    "insert": text.insert,
    "reverse": text.reverse,
    "ascii": text.first_byte,
    "ord": text.ord_text,
    "trim": text.trim,
    "to_base64": text.to_base64,
    "from_base64": text.from_base64,
    "md5": text.md5,
    "sha1": text.sha1,
    "sha2": text.sha2,
    "crc32": text.crc32,
    "unhex": text.unhex,
    "soundex": text.soundex,
    "format": text.format_number,
    "uuid_to_bin": text.uuid_to_bin,
    "bin_to_uuid": text.bin_to_uuid,
    "is_uuid": text.is_uuid,
    "inet_aton": text.inet_aton,
    "inet_ntoa": text.inet_ntoa,
    "binary": text.binary,
    "like": patterns.like,
    "regexp_like": patterns.regexp_like,
    "regexp_substr": patterns.regexp_substr,
    "regexp_instr": patterns.regexp_instr,
    "regexp_replace": patterns.regexp_replace,
    "date_add": dates.date_add,
    "time_add": dates.time_add,
    "timestampdiff": dates.timestampdiff,
    "extract": dates.extract,
    "date": dates.to_date,
    "datetime": dates.to_datetime,
    "moment": dates.moment,
    "span": dates.span,
    "time": dates.to_time,
    "datetime_number": dates.datetime_as_number,
    "time_number": dates.time_as_number,
    "time_text": dates.time_text,
    "unix_timestamp": dates.unix_timestamp,
    "from_unixtime": dates.from_unixtime,
    "local": dates.local,
    "to_utc": dates.to_utc,
    "datediff": dates.datediff,
    "dayofweek": dates.dayofweek,
    "weekday": dates.weekday,
    "dayofyear": dates.dayofyear,
    "week": dates.week,
    "yearweek": dates.yearweek,
    "weekofyear": dates.weekofyear,
    "dayname": dates.dayname,
    "monthname": dates.monthname,
    "last_day": dates.last_day,
    "to_days": dates.to_days,
    "from_days": dates.from_days,
    "to_seconds": dates.to_seconds,
    "makedate": dates.makedate,
    "time_to_sec": dates.time_to_sec,
    "sec_to_time": dates.sec_to_time,
    "maketime": dates.maketime,
    "timediff": dates.timediff,
    "addtime": dates.addtime,
    "subtime": dates.subtime,
    "convert_tz": dates.convert_tz,
    "period_add": dates.period_add,
    "period_diff": dates.period_diff,
    "date_format": date_formats.date_format,
    "time_format": date_formats.time_format,
    "str_to_date": date_formats.str_to_date,
    "get_lock": locks.get_lock,
    "release_lock": locks.release_lock,
    "release_all_locks": locks.release_all_locks,
    "is_free_lock": locks.is_free_lock,
    "is_used_lock": locks.is_used_lock,
    "json_array_append": json_values.json_array_append,
    "json_merge_preserve": json_values.json_merge_preserve,
    "json_pretty": json_values.json_pretty,
    "json_overlaps": json_values.json_overlaps,
    "random_bytes": text.random_bytes,
    "json": json_values.to_json,
    "json_extract": json_values.json_extract,
    "json_scalar": json_values.json_scalar,
    "json_value": json_values.json_value,
    "json_key": json_keys.json_key,
    "json_text_key": json_keys.json_text_key,
    "json_number_key": json_keys.json_number_key,
    "json_truth_key": json_keys.json_truth_key,
    "json_unquote": json_values.json_unquote,
    "json_double": json_values.json_double,
    "json_quote": json_values.json_quote,
    "json_array": json_values.json_array,
    "json_set": json_values.json_set,
    "json_insert": json_values.json_insert,
    "json_replace": json_values.json_replace,
    "json_remove": json_values.json_remove,
    "json_valid": json_values.json_valid,
    "json_length": json_values.json_length,
    "json_type": json_values.json_type,
    "json_keys": json_values.json_keys,
    "json_contains": json_values.json_contains,
    "json_contains_path": json_values.json_contains_path,
    "json_merge_patch": json_values.json_merge_patch,
    "json_depth": json_values.json_depth,
}
ARGUMENTS_MAX = 32 << 20
"""Characters or bytes of all arguments of a function. To copy more takes longer than others may wait."""

SPLIT_MAX = 4 << 20
"""The same of a function that takes its text apart, or does more for each character than to copy it."""

_SPLITS = keywords(
    "quote soundex trim substring_index find_in_set conv format signed whole round cast_decimal scaled exact_from_text"
    " exact_scaled exact_cast double_text date_format time_format str_to_date is_uuid inet_aton uuid_to_bin unhex"
    " from_base64 to_base64 datetime date time moment span regexp_replace regexp_substr regexp_instr decimal_text char"
    " concat_ws json_quote json_quote_value json_unquote elt exact_text unsigned_prefix"
)


def _bounded(name: str, function: Scalar) -> Scalar:
    most = SPLIT_MAX if name in _SPLITS else ARGUMENTS_MAX

    def bounded(context: CallContext, *args: Any) -> Any:
        size = 0
        for arg in args:
            if arg.__class__ is str or arg.__class__ is bytes:
                size += len(arg)
        if size > most:
            what = f"arguments of {name.upper()} of more than {most} characters or bytes together"
            raise unsupported(what, "do it in the application")
        return function(context, *args)

    return bounded


_NOT_DETERMINISTIC = keywords(
    "rand uuid sleep change seen numbered set_last_insert_id raise random_bytes get_lock release_lock release_all_locks"
    " is_free_lock is_used_lock"
)


def scalars() -> tuple[tuple[str, int, Scalar, bool], ...]:
    """Name, number of arguments (any), function, whether equal arguments give equal results."""
    strict = {name: _strict(function) for name, function in _STRICT.items()}
    return tuple(
        (f"qg_{name}", -1, _bounded(name, function), name not in _NOT_DETERMINISTIC)
        for name, function in {**strict, **_NULL_AWARE}.items()
    )
