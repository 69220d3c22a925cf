"""Which statements open, end or wind back a transaction."""

from __future__ import annotations

import pytest

from rewriter.plan import TransactionVerb
from rewriter.scan.scanner import transaction_verb

BEGIN, COMMIT, ROLLBACK, ROLLBACK_TO, OPAQUE, AUTOCOMMIT = (
    TransactionVerb.BEGIN,
    TransactionVerb.COMMIT,
    TransactionVerb.ROLLBACK,
    TransactionVerb.ROLLBACK_TO,
    TransactionVerb.OPAQUE,
    TransactionVerb.AUTOCOMMIT,
)


@pytest.mark.parametrize(
    ("sql", "verb"),
    [
        (b"BEGIN", BEGIN),
        (b"/* orm */ begin work;", BEGIN),
        (b"START TRANSACTION WITH CONSISTENT SNAPSHOT", BEGIN),
        (b"START SLAVE", None),
        (b"BEGIN NOT ATOMIC x; END", OPAQUE),
        (b"IF 1 THEN ROLLBACK TO a; END IF", OPAQUE),
        (b"SET STATEMENT max_statement_time = 1 FOR REPEAT COMMIT; UNTIL 1 END REPEAT", OPAQUE),
        (b"EXECUTE p USING @a", OPAQUE),
        (b"CALL p()", OPAQUE),
        (b"COMMIT AND CHAIN", COMMIT),
        (b"rollback", ROLLBACK),
        (b"ROLLBACK WORK AND NO CHAIN", ROLLBACK),
        (b"ROLLBACK TO a", ROLLBACK_TO),
        (b"ROLLBACK WORK TO SAVEPOINT `a`", ROLLBACK_TO),
        (b"SAVEPOINT a", None),
        (b"RELEASE SAVEPOINT a", None),
        (b"XA START 'a'", BEGIN),
        (b"XA END 'a'", None),
        (b"XA PREPARE 'a'", None),
        (b"XA COMMIT 'a' ONE PHASE", COMMIT),
        (b"XA ROLLBACK 'a'", ROLLBACK),
        (b"SET autocommit=1", AUTOCOMMIT),
        (b"SET @@session.autocommit = ON, names = 1", AUTOCOMMIT),
        (b"SET `autocommit` := TRUE", AUTOCOMMIT),
        (b"SET autocommit = 0", None),
        (b"SET my_autocommit = 1", None),
        (b"SET autocommit = 10", None),
        (b"SELECT 'COMMIT'", None),
        (b"", None),
        (b"SELECT 1; SELECT 2", None),
        (b"COMMIT;", COMMIT),
        (b"SELECT 1; ROLLBACK; SELECT 2", OPAQUE),
        (b"COMMIT; BEGIN", OPAQUE),
        (b"SET autocommit = 1; ROLLBACK", OPAQUE),
        (b"ROLLBACK TO a; SELECT 1", OPAQUE),
        (b"SELECT 1 --\x7f; COMMIT", OPAQUE),
        (b"SELECT /*! '*/; COMMIT # */' */", OPAQUE),
        (b"/*!999999 COMMIT # */ SELECT 1", OPAQUE),
        (b"/*M!999999 COMMIT # */ SELECT 1", OPAQUE),
        (b"/*!40101 COMMIT */;", COMMIT),
    ],
)
def test_verb(sql: bytes, verb: TransactionVerb | None) -> None:
    assert transaction_verb(sql) is verb


@pytest.mark.parametrize(("escapes", "verb"), [(True, None), (False, OPAQUE)])
def test_where_a_text_is_cut_depends_on_the_mode(escapes: bool, verb: TransactionVerb | None) -> None:
    assert transaction_verb(rb"SELECT 'a\'; COMMIT; SELECT '", backslash_escapes=escapes) is verb
