"""The statements that the gate makes of its own, by their form: each as a whole, and only where a client asked for it.

Written down here once more, and not taken from the product, so that what it makes is compared with something. What a
client wrote and the gate carried along (a condition, ids, an assignment) stands in groups, and has to be among what
was sent.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice

NOW = re.escape(rb"(TIMESTAMPDIFF(MICROSECOND,'1970-01-01',UTC_TIMESTAMP(6))*1000)")
_DOUBLED = rb"\(\d+ << LEAST\(epoch - 1, \d+\)\)"
_DOUBLED_WITH_JITTER = rb"\(" + _DOUBLED + rb" \* \(683 \+ MOD\(CRC32\(CONCAT\(id, ':', epoch\)\), 683\)\) >> 10\)"
_BOUNDED = rb"GREATEST\(\d+, LEAST\(\d+, (?:" + _DOUBLED + rb"|" + _DOUBLED_WITH_JITTER + rb")\)\)"
_LADDER = rb"(?:IF\(epoch = \d+, \d+, )*\d+\)*"
_BACKOFF = rb"(?:" + _BOUNDED + rb"|" + _LADDER + rb") \* 1000"
_RENEWED = rb"IF\(MOD\(time_next, 1000\) = 3, \d+, \d+\)"  # what is held beside others stays marked
_DELAY = rb"(?: \+ (?:\d+|" + _BACKOFF + rb"|" + _RENEWED + rb"))?"
_AGAIN = NOW + rb"(?: \+ (?:\d+|" + _BACKOFF + rb"))?"
_NAME = rb"`(?:[^`]|``)*`"
_TABLE = rb"(?:" + _NAME + rb"\.)?" + _NAME
_TEXT = rb"_utf8mb4 X'(?:[0-9a-f]{2})*'"
_VALUE = rb"(?:-?\d+|" + _TEXT + rb")"
_PARKED, _REJECTED, _REDRIVEN, _RENUMBERED = (b"%d" % ((1 << 63) - n) for n in (1, 2, 3, 4))
_LAST_FAILED = rb"IF\(epoch >= \d+, " + _REJECTED + rb", " + _AGAIN + rb"\)"  # the last attempt sets it aside
_MARKED = rb"(?:= (?:" + _REDRIVEN + rb"|" + _RENUMBERED + rb")|IN \(" + _REDRIVEN + rb", " + _RENUMBERED + rb"\))"
_FREE = rb"time_acked IS NULL"
_THERE = rb"\(id(?:, time_created)?\) IN \(SELECT there\.id(?:, there\.time_created)? FROM " + _TABLE + rb" AS there\)"
_KEPT = rb"\(time_next IS NULL OR time_next < " + _REJECTED + rb"\)"
_FLYING = rb"\(time_acked IS NULL AND epoch > 0 AND time_next > " + NOW + rb" AND MOD\(time_next, 1000\) IN \(1, 3\)\)"
_WHERE = rb"\((?:id IN \((?P<ids>[^()]*)\)|FALSE|(?P<condition>.*))\)"  # FALSE: an empty batch
_AND = rb"(?:\((?:FALSE|(?P<condition>.*))\) AND )?"
_COLUMN = rb"(?:" + _NAME + rb"|HEX\(CONVERT\(" + _NAME + rb" USING utf8mb4\)\))"
_SCHEDULES = _NAME + rb"\.`queuegate_schedules`"
_LITERALS = rb"(?:(?:NULL|TRUE|FALSE|DEFAULT|X'[0-9a-f]*'|" + _TEXT + rb"|-?[\d.]+(?:[eE][+-]?\d+)?)(?:, )?)*"
_ONE_SCHEDULE = rb" WHERE name = " + _TEXT
_GROUPS = _NAME + rb"\.`queuegate_groups`"
_HELD_KEY = rb" AND ".join(rb"follow_%s = " % part + _TEXT for part in (b"database", b"table", b"id"))
_OTHER = (
    rb"\(SELECT MIN\(qg_other\.id\) FROM " + _TABLE + rb" AS qg_other WHERE qg_other\.time_acked IS NULL"
    rb"(?: AND qg_other\." + _NAME + rb" = " + _TABLE + rb"\." + _NAME + rb")? AND qg_other\.id <>? " + _TABLE
    + rb"\.id(?: AND \(qg_other\.time_acked IS NULL AND qg_other\.epoch > 0 AND qg_other\.time_next > " + NOW + rb" AND"
    rb" MOD\(qg_other\.time_next, 1000\) IN \(1, 3\)\)"
    rb"| AND \(COALESCE\(qg_other\.epoch, 0\) = 0 OR qg_other\.time_next IS NULL OR qg_other\.time_next <= "
    + NOW + rb"\))?\)"
)  # fmt: skip
_SAVED = rb"SAVEPOINT queuegate_unit"
_UNIT = rb"START TRANSACTION|" + _SAVED + rb"|COMMIT AND NO CHAIN NO RELEASE|ROLLBACK|(?:ROLLBACK TO|RELEASE) " + _SAVED

_SINCE = rb"CAST\(UNIX_TIMESTAMP\('[\d :.T-]+'\) \* 1000000000 AS SIGNED\)"
_BETWEEN = (
    rb"id [<>]= \d+|time_created <= " + _SINCE + rb"|time_created >= " + _SINCE + rb" AND id >= CAST\(\(SELECT"
    rb" MIN\(id\) FROM \(SELECT id FROM " + _TABLE + rb" WHERE time_created >= " + _SINCE
    + rb" ORDER BY time_created LIMIT 1000\) AS qg_since\) AS SIGNED\) - \d+"
)  # fmt: skip

_VISIBLE = (  # which queues the database shows to the client's account
    rb"SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema\.TABLES"
    rb" WHERE TABLE_TYPE = 'BASE TABLE' AND \(TABLE_COMMENT LIKE '%vitess_message%'"
    rb" OR TABLE_COMMENT LIKE 'queuegate_topic%' OR TABLE_COMMENT LIKE 'queuegate_schedules%'\)"
)
_ID = rb"(?:-?\d+|X'[0-9a-f]*'|" + _TEXT + rb")"
_IDS = _ID + rb"(?:, " + _ID + rb")*"
_PLACES = rb"CASE (?:id|source_id)(?: WHEN " + _ID + rb" THEN \d+)+ END"
_EXPLAINS = rb"(?:explain|desc|analyze).*delivery"
_TRACES = rb"trace.*message"
_OF_A_QUEUE = rb"queue|topic|schedule|trace|stream|ack|release|renew|reject|retry|redrive|delivery|group|consumers"
_OF_A_QUEUE += rb"|update|delete"

_KEEPS = rb"(?:,retain=[\d.]+s)?(?:,retain_rows=\d+)?(?:,retain_bytes=\d+)?"
_KEEPS += rb"(?:,trace=[\w%]+)?(?:,trace_keep=[\d.]+s)?(?:,compact=[\w$%]+)?(?:,compact_after=[\d.]+s)?"
_COMPACTS = rb"KEY queuegate_compact \(" + _NAME + rb", id\), )?"
_OWN = rb"(?:,retain=until_consumed)?(?:,filter=[\w$%]+)?"
_NAMED = rb",queuegate_table=:?[\w$%]+"  # whose mark it is

_ALWAYS = (
    rb"SELECT @@character_set_results|SELECT @@sql_mode|SET SESSION sql_mode = '[\w,]*'|SET autocommit = [01]",
    rb"SELECT @@character_set_client, @@sql_mode, DATABASE\(\)",
    rb"SELECT @queuegate_allow_drop_table|SELECT @queuegate_lease",
    rb"SHOW CREATE TABLE " + _TABLE,  # of SHOW CREATE QUEUE
    rb"SELECT 1 FROM " + _TABLE + rb" LIMIT 0",  # whether there is such a table
    rb"SELECT \* FROM " + _NAME + rb" LIMIT 0",  # of COM_FIELD_LIST
    rb"SELECT 1 FROM information_schema\.SCHEMATA WHERE SCHEMA_NAME = 'queuegate'",
    _VISIBLE,  # before any error of a statement, which may name a queue
    rb"SHOW (?:FULL )?PROCESSLIST|KILL (?:CONNECTION |QUERY )?\d+",  # of the binary protocol
)
"""What needs no word of a client's."""

_EXPLAINED = (
    rb"SELECT " + NOW + rb" AS qg_now, " + _TABLE + rb"\.id AS qg_id, COALESCE\(epoch, 0\) AS qg_epoch,"
    rb" time_next AS qg_time_next, time_acked AS qg_time_acked, (?:queuegate_slot|NULL) AS qg_slot,"
    rb" (?:last_error|NULL) AS qg_last_error,"
    rb" (?:NULL|" + _OTHER + rb") AS qg_earlier, (?:NULL|" + _OTHER + rb") AS qg_held,"
    rb" (?:failed_attempts|NULL) AS qg_failed_attempts FROM " + _TABLE
)  # fmt: skip
_ATTEMPT = (
    rb"(?:, failed_attempts = CONCAT\('\[', (?:IF\(SUBSTRING\(failed_attempts, 1, 2\) = '\[\{', CONCAT\("
    rb"SUBSTRING_INDEX\(SUBSTRING\(failed_attempts, 2, CHAR_LENGTH\(failed_attempts\) - 2\), "
    + _TEXT + rb", -\d+\), " + _TEXT + rb"\), ''\), )?'\{\"attempt\": ', epoch, ', \"at\": \"',"
    rb" UTC_TIMESTAMP\(6\)(?:, " + _TEXT + rb"){2,3}\))?"
)  # fmt: skip
_ADDED = rb"ADD COLUMN lease_token BIGINT NOT NULL DEFAULT 0"
_FORMS: tuple[tuple[bytes, bytes], ...] = (
    (rb"create\b.*\bqueue", rb"CREATE TABLE (?:IF NOT EXISTS )?" + _TABLE + rb" \(.*\)(?: ENGINE=InnoDB)?"
     rb" COMMENT='vitess_message,.*'"),
    (rb"rename", rb"ALTER TABLE " + _TABLE + rb" COMMENT='(?:vitess_message|queuegate_topic)(?:,[^']*)?"
     + _NAMED + rb"'"),  # a queue's or a topic's mark follows its table
    (rb"drop\b.*\b(?:queue|topic|group)", rb"DROP TABLE " + _TABLE),
    (rb"drop\b.*\bgroup", rb"DROP TABLE " + _TABLE + rb", " + _TABLE),  # with its dead letters
    (rb"drop\b.*\bqueue\b.*\bif\b.*\bexists", rb"DROP TABLE IF EXISTS " + _TABLE),
    (rb"truncate\b.*\bqueue", rb"DELETE FROM " + _TABLE),
    (rb"alter\b.*\b(?:queue|group)", rb"ALTER TABLE " + _TABLE + rb" (?:(?:DROP KEY " + _NAME
     + rb"|ADD KEY " + _NAME + rb" \([\w`, ()]*\)), )*COMMENT='(?:[^']|'')*'"),
    (rb"alter\b.*\b(?:queue|group)", rb"ALTER TABLE " + _TABLE + rb" " + _ADDED),
    # schedules
    (rb"schedule", _UNIT + rb"|SHOW WARNINGS|SELECT " + NOW
     + rb"|(?:(?:ROLLBACK TO|RELEASE) )?SAVEPOINT queuegate_trial"),
    (rb"create\b.*\bschedule", rb"INSERT INTO " + _SCHEDULES + rb" \((?:\w+(?:, )?)+\) VALUES \(" + _LITERALS + rb"\)"),
    (rb"(?:create|run)\b.*\bschedule", rb"INSERT INTO " + _TABLE + rb" \((?:" + _NAME + rb"(?:, )?)+\) VALUES \("
     + _LITERALS + rb"\)"),
    (rb"schedule", rb"SELECT (?:(?:HEX\(\w+\)|\w+)(?:, )?)+ FROM " + _SCHEDULES + _ONE_SCHEDULE
     + rb"(?: FOR UPDATE)?"),
    (rb"alter\b.*\bschedule", rb"UPDATE " + _SCHEDULES + rb" SET (?:\w+ = (?:NULL|\d+|" + _TEXT + rb")(?:, )?)+"
     + _ONE_SCHEDULE + rb"(?: AND paused = 1)?"),
    (rb"drop\b.*\bschedule", rb"DELETE FROM " + _SCHEDULES + _ONE_SCHEDULE),
    # topics and their consumer groups
    (rb"create\b.*\btopic", rb"CREATE TABLE (?:IF NOT EXISTS )?" + _TABLE + rb" \(id BIGINT NOT NULL AUTO_INCREMENT"
     rb" PRIMARY KEY, time_scheduled BIGINT NOT NULL DEFAULT " + NOW + rb", time_created BIGINT NOT NULL DEFAULT " + NOW
     + rb", (?:(?P<items>.*), )?KEY queuegate_time \(time_created\), (?:" + _COMPACTS + rb"CONSTRAINT " + _NAME
     + rb" CHECK \(\(time_scheduled <= 0 OR time_scheduled >= \d+\)\)\)(?: ENGINE=InnoDB)?"
     rb" COMMENT='queuegate_topic" + _KEEPS + _NAMED + rb"'"),
    (rb"alter\b.*\btopic", rb"ALTER TABLE " + _TABLE + rb" (?:DROP KEY queuegate_compact, )?(?:ADD " + _COMPACTS
     + rb"COMMENT='queuegate_topic" + _KEEPS + _NAMED + rb"'"),
    (rb"create\b.*\bgroup", rb"CREATE TABLE " + _TABLE + rb" \(.*\)(?: ENGINE=InnoDB)?"
     rb" COMMENT='vitess_message,[^']*paused=1,[^']*topic="
     rb"[^']*,consumer_group=\w+" + _OWN + _NAMED + rb"'(?: DEFAULT CHARSET=\w+(?: COLLATE=\w+)?)?"),
    (rb"create\b.*\bgroup", rb"ALTER TABLE " + _TABLE + rb" COMMENT='vitess_message,[^']*topic=[^']*,consumer_group="
     rb"\w+" + _OWN + _NAMED + rb"'"),
    (rb"create\b.*\bgroup", rb"ALTER TABLE " + _TABLE),  # whether the account may
    (rb"(?:create|alter)\b.*\bgroup.*filter|alter\b.*\bqueue.*filter", rb"SELECT 1 FROM " + _TABLE
     + rb" WHERE \(.*\) LIMIT 0"),  # in words of the gate's own
    (rb"create\b.*\bgroup", rb"SELECT @@auto_increment_increment|DROP TABLE " + _TABLE),  # where it cannot begin there
    (rb"create\b.*\bgroup|seek|stream.*start", rb"SELECT CAST\(UNIX_TIMESTAMP\(TIMESTAMP\('(?P<moment>[^']+)'\)\)"
     rb" \* 1000000000 AS SIGNED\)"),
    (rb"seek", rb"DELETE FROM " + _TABLE + rb" WHERE 1 = 0"),
    (rb"stream", rb"USE " + _NAME),  # so that a server looks at the rights of a running one again
    (rb"stream|fetch", rb"SHOW SESSION VARIABLES WHERE Variable_name IN \((?:'[a-z_]+_timeout'(?:, )?)+\)"),
    (rb"ack", rb"DELETE (?:" + _TABLE + rb" )?FROM " + _TABLE + rb"(?: FORCE INDEX \(PRIMARY\))? WHERE " + _WHERE
     + rb" AND " + _FREE + rb" AND \(epoch > 0 OR queuegate_sought = 0\)"),
    (rb"stream.*(?:since|until)", rb"SELECT " + _NAME + rb"(?:, " + _NAME + rb")* FROM " + _TABLE
     + rb" WHERE time_scheduled <= " + NOW + rb"(?: AND (?:" + _BETWEEN + rb")){0,2}(?: AND \((?P<condition>.*)\))?"
     rb" ORDER BY id(?: LIMIT \d+)?"),
    # acks, however they are spelled
    (rb"ack", rb"UPDATE " + _TABLE + rb"(?: FORCE INDEX \(PRIMARY\))? SET time_acked = " + NOW
     + rb", time_next = NULL WHERE " + _WHERE + rb" AND " + _FREE),
    (rb"update\b", rb"(?P<head>(?i:update\b).*?)(?: FORCE INDEX \(PRIMARY\))? SET (?P<assignments>.*?) WHERE "
     + _AND + _FREE + rb"(?: (?P<tail>.*))?"),
    # the verbs
    (rb"nack|release|renew|reject",
     rb"UPDATE " + _TABLE + rb"(?: FORCE INDEX \(PRIMARY\))? SET time_next = (?:" + NOW + _DELAY + rb"|" + _LAST_FAILED
     + rb"|" + _REJECTED + rb"|LEAST\(time_scheduled, " + NOW + rb"\))" + _ATTEMPT
     + rb"(?:, first_error = COALESCE\(first_error, " + _TEXT + rb"\))?(?:, last_error = " + _TEXT + rb")?"
     rb"(?:, epoch = epoch - 1)?(?:, lease_token = LEAST\(lease_token, 9007199254740991\) \+ 1)? WHERE " + _WHERE
     + rb" AND (?:" + _FLYING + rb"|" + _FREE + rb"(?: AND epoch > 0)? AND " + _KEPT + rb")"),
    (rb"retry", rb"UPDATE " + _TABLE + rb" SET time_next = " + NOW + rb" WHERE " + _AND + _FREE + rb" AND time_next > "
     + NOW + rb" AND time_next < " + _REJECTED + rb" AND NOT \(epoch > 0 AND MOD\(time_next, 1000\) IN \(1, 3\)\)"),
    (rb"redrive", rb"UPDATE " + _TABLE + rb" SET time_next = (?:" + _REDRIVEN + rb"|CASE WHEN source_id IS"
     rb" NULL THEN " + _REDRIVEN + rb" ELSE " + _RENUMBERED + rb" END) WHERE " + _AND + _FREE + rb" AND "
     + _KEPT + rb"(?: AND \(NOT " + _THERE + rb" OR " + _THERE + rb"\))? ORDER BY time_next, id(?: LIMIT \d+)?"),
    (rb"redrive", rb"(?:INSERT INTO " + _TABLE + rb" \((?:" + _NAME + rb"(?:, )?)+\) SELECT (?:(?:" + _NAME + rb"|"
     + NOW + rb"|0|NULL)(?:, )?)+|DELETE) FROM " + _TABLE + rb" WHERE " + _FREE + rb" AND time_next " + _MARKED
     + rb"(?: AND NOT " + _THERE + rb")?"),  # a seek has brought back others
    (rb"redrive", rb"UPDATE " + _TABLE + rb" SET time_next = " + _RENUMBERED + rb" WHERE " + _FREE
     + rb" AND time_next = " + _REDRIVEN + rb" AND " + _THERE),
    (rb"(?:create|alter)\b.*\b(?:queue|group)", rb"INSERT INTO " + _TABLE
     + rb" \(id\) SELECT 1 FROM DUAL WHERE 1 = 0"),  # whether the client may add to the dead-letter queue
    # streams
    (rb"stream", rb"UPDATE " + _TABLE + rb" SET epoch = epoch WHERE 1 = 0 AND \((?:1 = 1|(?:" + _NAME
     + rb" IS NULL(?: OR )?)+)\)"),
    (rb"stream|create\b.*\bgroup", rb"SELECT 1 FROM " + _TABLE + rb" WHERE 1 = 0 AND \((?:1 = 1|(?:" + _NAME
     + rb" IS NULL(?: OR )?)+)\)"),
    (rb"stream", rb"PREPARE queuegate_question FROM '(?:UPDATE " + _TABLE + rb" SET epoch = epoch|SELECT 1 FROM "
     + _TABLE + rb") WHERE .*'|DEALLOCATE PREPARE queuegate_question"),  # in a transaction
    (rb"stream.*where", rb"SELECT @@version, @@sql_mode, @@time_zone, @@collation_connection,"
     rb" @@div_precision_increment, @@lc_time_names, @@default_week_format"),
    (rb"stream.*where", rb"SELECT 1 FROM " + _TABLE + rb" WHERE \(.*\) LIMIT 0"),  # in words of the gate's own
    # what looks
    (rb"queuegate", rb"USE information_schema"),  # where a session in that database is at the server
    (rb"queuegate.*(?:databases|schemas)", rb"SHOW DATABASES"),  # there it lists that database, too
    (rb"information_schema|queuegate", rb"SELECT COLUMN_NAME, COLUMN_TYPE FROM information_schema\.COLUMNS"
     rb" WHERE TABLE_SCHEMA = 'information_schema' AND TABLE_NAME = '(?:TABLES|COLUMNS|SCHEMATA)'"
     rb" ORDER BY ORDINAL_POSITION"),
    (rb"show.*variables", rb"SHOW (?:GLOBAL|SESSION|LOCAL) VARIABLES WHERE Variable_name IN \((?:'\w+'(?:, )?)+\)"
     rb"(?: AND \((?:Variable_name LIKE )?(?P<condition>.*)\n\))?"),  # a limited account sees those it may ask for
    (rb"show|queuegate", rb"SELECT ID, USER FROM information_schema\.PROCESSLIST"),
    # what it may read
    (_OF_A_QUEUE + rb"|subscriptions|queuegate", rb"SELECT TABLE_SCHEMA, TABLE_NAME FROM"
     rb" information_schema\.COLUMNS WHERE \(ORDINAL_POSITION = 1 OR COLUMN_NAME = 'id'\)"
     rb" AND FIND_IN_SET\('select', PRIVILEGES\)"),
    # whether it sees all receivers
    (_TRACES + rb"|queuegate", rb"SELECT 1 FROM information_schema\.USER_PRIVILEGES WHERE PRIVILEGE_TYPE = 'PROCESS'"
     rb" AND GRANTEE = CONCAT\('{4}, REPLACE\(CURRENT_USER\(\), '@', '{3}@'{3}\), '{4}\)"),
    (_TRACES, rb"SELECT time_created, id FROM " + _TABLE + rb" WHERE id = (?P<ids>-?\d+)"),
    (_TRACES, _EXPLAINED + rb" WHERE \(id = (?P<ids>-?\d+)\) ORDER BY id LIMIT 20"),
    (_TRACES, rb"SELECT time_created FROM " + _TABLE + rb" WHERE id IN \((?P<ids>[^()]*)\)"),
    (_TRACES, _EXPLAINED + rb" WHERE \(id IN \((?P<ids>[^()]*)\)\) ORDER BY id LIMIT 1"),
    (_EXPLAINS, _EXPLAINED + rb" WHERE (?:\((?P<condition>.*)\) ORDER BY id|" + _FREE + rb") LIMIT \d+"),
    (_EXPLAINS, rb"SELECT " + _PLACES + rb" FROM " + _TABLE + rb" WHERE id IN \(" + _IDS + rb"\)"),
    (_TRACES + rb"|" + _EXPLAINS, rb"SELECT (?:CASE WHEN source_id IS NULL THEN " + _PLACES + rb" ELSE " + _PLACES
     + rb" END|" + _PLACES + rb") FROM " + _TABLE + rb" WHERE " + _FREE + rb" AND \(\(?(?:\(source_id IS NULL AND id IN"
     rb" \(" + _IDS + rb"\)\) OR source_id IN \(" + _IDS + rb"\)|id IN \(" + _IDS + rb"\))(?:\) AND \(source IS NULL OR"
     rb" source = " + _TEXT + rb"\))?\)"),
    # before an error of a statement on a queue: whether the account may know of it, or what the database says to it
    (_OF_A_QUEUE, rb"UPDATE " + _TABLE + rb" SET time_next = 0 WHERE 1 = 0"),
    # groups
    (rb"ack|update|delete|insert", _UNIT + rb"|SHOW WARNINGS"),
    (rb"redrive", _UNIT),
    (rb"ack|update|delete", rb"SELECT " + _COLUMN + rb" FROM (?:" + _TABLE
     + rb"(?: FORCE INDEX \(PRIMARY\))?|(?P<table>.*?)) WHERE (?:\(id IN \((?P<ids>[^()]*)\)\) AND " + _FREE + rb"|"
     + _AND + _FREE + rb"(?: (?P<tail>.*?))??|TRUE(?: (?P<second>.*?))??|(?P<third>.*?))"
     rb"(?: FOR UPDATE)?"),
    (rb"ack|update|delete", rb"SELECT HEX\(group_value\), HEX\(follow_database\), HEX\(follow_table\), HEX\(follow_id\)"
     rb" FROM " + _GROUPS + rb" WHERE queue_name = " + _TEXT + rb" AND group_value IN \((?:" + _TEXT + rb"(?:, )?)+\)"
     rb" ORDER BY group_value, follow_database, follow_table, follow_id FOR UPDATE"),
    (rb"ack|update|delete|insert", rb"SELECT 1 FROM " + _TABLE + rb" WHERE " + _FREE + rb" AND (?:" + _NAME
     + rb" = " + _VALUE + rb"|1 = 1) LIMIT 1 FOR UPDATE(?: SKIP LOCKED)?"),
    (rb"ack|update|delete", rb"UPDATE " + _TABLE + rb" SET time_next = (?:" + NOW
     + rb"|CASE WHEN time_scheduled > " + NOW + rb" THEN time_scheduled ELSE " + NOW + rb" END) WHERE id = "
     + _VALUE + rb" AND " + _FREE + rb" AND time_next = " + _PARKED),
    (rb"ack|update|delete|insert", rb"DELETE FROM " + _GROUPS + rb" WHERE " + _HELD_KEY),
    (rb"insert.*after.*group", rb"(?P<insert>.*?(?i:insert)\b.*?)[\s;\0\x1c-\x1f]*"),  # the group stays here
    (rb"insert", rb"UPDATE " + _GROUPS + rb" SET queue_name = queue_name WHERE 1 = 0"),
    (rb"insert", rb"INSERT INTO " + _GROUPS + rb" \(follow_database, follow_table, follow_id, queue_name, group_value\)"
     rb" VALUES \((?:" + _TEXT + rb"(?:, )?){5}\)"),
    (rb"insert", rb"SELECT 1 FROM " + _TABLE + rb" WHERE id = " + _VALUE + rb" AND " + _NAME + rb" = " + _VALUE),
)  # fmt: skip
"""The words that a client has to have sent, and what is made of them."""

_COMPILED = tuple((re.compile(asked, re.IGNORECASE | re.DOTALL), re.compile(made, re.DOTALL)) for asked, made in _FORMS)
_OF_ITSELF = tuple(re.compile(form, re.DOTALL) for form in _ALWAYS)

_DUE = NOW + rb" \+ \d+|UNIX_TIMESTAMP\('[-0-9 :.]{26}'\) \* 1000000000"
_FILLED = re.compile(
    rb", (?:time_next|time_scheduled|epoch|time_created)(?: = (?:\d+|time_scheduled|" + _DUE + rb"|" + NOW + rb"))?"
    rb"(?=[^\w$]|\Z)|, (?:" + _PARKED + rb"|time_scheduled|0|" + _DUE + rb"|" + NOW + rb")(?=[,)])"
)
"""What an INSERT into a queue is given besides: columns, and their values in every row."""

_FIELD = rb"CAST\((?:''|0) AS (?:CHAR\(\d+\)|SIGNED|DECIMAL\(20,3\))\) AS `\w+`"
_HEADER = rb"SELECT " + _FIELD + rb"(?:, " + _FIELD + rb")* FROM \(SELECT 1 AS qg_one\) AS qg_none WHERE 1 = 0"
_LISTING = rb"(?:TABLES|COLUMNS|SCHEMATA)"
_NO_LISTING = rb"SELECT \* FROM information_schema\." + _LISTING + rb" WHERE 1 = 0"
_TEXT_CELL = rb"CONVERT\(X'[0-9a-f]*' USING utf8mb4\)"
_CELL = (
    rb"(?:NULL|-?\d+(?:\.\d{3})?|'[^'\\]*'|" + _TEXT_CELL + rb"|CAST\(" + _TEXT_CELL + rb" AS CHAR\)"
    rb"|CAST\((?:NULL|\d+) AS UNSIGNED\))"
)
_ROW = rb"SELECT " + _CELL + rb"(?:, " + _CELL + rb")*"
_ROWS = rb"SELECT \* FROM \((?:" + _HEADER + rb"|" + _NO_LISTING + rb")(?: UNION ALL " + _ROW + rb")*\) AS qg_\d+"
_SHOWN = rb"(?i:queues|subscriptions|in_flight|topics|groups|group_in_flight|consumers|traces|schedules)"
_SYSTEM = re.compile(
    rb"(?:`queuegate`\.`" + _SHOWN + rb"`|\(" + _HEADER + rb"(?: UNION ALL " + _ROWS + rb")*\))"
    rb"(?: AS `" + _SHOWN + rb"`)?|`" + _SHOWN + rb"`(?=[^`\w])|'queuegate'"
)
"""What stands in place of a system table, of its name before a column's, and of DATABASE() in its database."""

_LISTED = re.compile(
    rb"(?:\(SELECT \* FROM information_schema\." + _LISTING + rb"(?: UNION ALL " + _ROWS + rb")+\)"
    rb"|information_schema\.`"
    + _LISTING
    + rb"`)(?: AS `(?i:"
    + _LISTING
    + rb")`)?|`(?i:"
    + _LISTING
    + rb")`(?=[^`\w])|"
    + _SYSTEM.pattern
)
"""The same, and what stands in place of a table of information_schema, so that it lists the system tables as well."""

_ASKS_LISTING = re.compile(rb"information_schema", re.IGNORECASE)
_DEFAULT = re.compile(rb"\bDEFAULT\b")
_NAMES_STATE = re.compile(rb"insert.*\bstate\b|replace.*\bstate\b|insert.*current_timestamp", re.IGNORECASE | re.DOTALL)
"""Where NULL, or a default as a server shows it, becomes DEFAULT for the queue's own columns."""

_SOCKET = re.compile(rb"''(?: AS `@@(?:global\.)?socket`|(?= AS\s))", re.IGNORECASE)
_ASKS_SOCKET = re.compile(rb"@@(?:global\.)?socket\b", re.IGNORECASE)
"""What stands in a question for variables where `@@socket` was asked for."""

_TOLD = re.compile(rb"(?:'[\w.%:-]+@[\w.%:-]+'|'')(?: AS `[^`]*`)? ?")
_ASKS_WHO = re.compile(rb"user\s*\(|@@", re.IGNORECASE)
"""What a limited account is told in place of USER() and its like, and of variables that are not for it."""

_SEARCHED_MAX = 1 << 20  # bytes, for what a client's statement is; what is larger is one large comment
_HEAD, _PARTS_MAX, _SPARE = 4, 100, 1000
_LITERAL = re.compile(
    rb"_utf8mb4 X'[0-9a-f]*'|(?:DATE |TIME |TIMESTAMP |[bBnNxX])?'(?:[^'\\]|\\.|'')*'|-?\b\d[\d.eE+-]*|NULL", re.DOTALL
)
_APART = re.compile(rb"/\*.*?\*/|(?:#|--(?=[\x00-\x20]))[^\n]*", re.DOTALL)
_OURS = re.compile(rb"time_acked = " + NOW + rb"|time_next = NULL")


def is_made(text: bytes, sent: bytes) -> bool:
    """Whether the gate may have made this text out of what was sent."""
    searched = sent[:_SEARCHED_MAX]
    if any(form.fullmatch(text) for form in _OF_ITSELF):
        return True
    for words, form in _COMPILED:
        found = form.fullmatch(text)
        if found is not None and words.search(searched) and _carries_what_was_said(found, sent):
            return True
    verb = _APART.sub(b" ", text).strip(b" \t\r\n\0")[:6].upper()
    if verb in (b"UPDATE", b"DELETE") and _is_evenly(text, sent):
        return True
    if verb == b"SELECT" and _ASKS_SOCKET.search(searched) and _is_cut(text, _SOCKET, sent):
        return True
    if verb == b"SELECT" and _ASKS_WHO.search(searched) and _is_cut(text, _TOLD, sent):
        return True
    if verb in (b"INSERT", b"REPLAC"):
        named = _NAMES_STATE.search(searched) is not None
        ended = text.rstrip(b"; \t\r\n\0")  # what comes before it may have been cut out
        return _is_cut(ended, _FILLED, sent) or (named and _is_cut(ended, _DEFAULT, sent))
    listed = _ASKS_LISTING.search(searched) is not None
    return _is_cut(text, _SYSTEM, sent) or (listed and _is_cut(text, _LISTED, sent))


def _is_evenly(text: bytes, sent: bytes) -> bool:
    """Whether it was sent like that, but for space and comments between its clauses, and for values in place of `?`."""
    return _is_evenly_in(text, sent) or any(_is_evenly_in(text, part) for part in _parts(text, sent))


def _parts(text: bytes, sent: bytes) -> Iterator[bytes]:
    """What was sent from each place on where the text may begin: quotes and comments that an earlier statement left
    open are not there."""
    begins = re.compile(re.escape(text.strip()[:_HEAD]), re.IGNORECASE)
    for found in islice(begins.finditer(sent), _PARTS_MAX):
        yield sent[found.start() : found.start() + 4 * len(text) + _SPARE]


def _is_evenly_in(text: bytes, sent: bytes) -> bool:
    for said, made in ((sent, text), (_APART.sub(b" ", sent), text), (_APART.sub(b" ", sent), _APART.sub(b" ", text))):
        if _evenly(made) in _evenly(said):
            return True
        if b"?" in said and _evenly(_LITERAL.sub(b"?", made)) in _evenly(_LITERAL.sub(b"?", said)):
            return True
    return False


def _evenly(text: bytes) -> bytes:
    """Without space between words and comments, and in small letters."""
    return b"".join(text.replace(b"\0", b" ").split()).lower()


def _is_cut(text: bytes, between: re.Pattern[bytes], sent: bytes) -> bool:
    """Whether it is a statement as it was sent, but for what the gate has put in."""
    pieces = between.split(text)
    return len(pieces) > 1 and all(_said(piece, sent) for piece in pieces)


def _carries_what_was_said(found: re.Match[bytes], sent: bytes) -> bool:
    """Whether all that is a client's in a made text was sent."""
    for name, piece in found.groupdict().items():
        if piece is None:
            continue
        if name == "ids":  # quoted or not, as the gate likes, or bound
            said = all(_said(id_.strip(b" \t\r\n'\""), sent) or _said(id_, sent) for id_ in piece.split(b","))
        elif name == "assignments":
            said = all(_said(rest.strip(b", "), sent) for rest in _OURS.split(piece))
        else:
            said = _said(piece, sent)
        if not said:
            return False
    return True


def _said(piece: bytes, sent: bytes) -> bool:
    """Whether a client wrote that, or wrote it with a `?` where a value is now."""
    return piece.strip() in sent or _is_evenly(piece, sent)
