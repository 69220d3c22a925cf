"""Whether a lease that an INSERT writes changes more than itself, by the text of SHOW CREATE TABLE of each server."""

from __future__ import annotations

import pytest

from engine.store.catalog import lease_shows

_MARIADB = """CREATE TABLE `q` (
  `id` bigint(20) NOT NULL AUTO_INCREMENT,
  `priority` tinyint(4) NOT NULL DEFAULT 50,
  `time_scheduled` bigint(20) NOT NULL DEFAULT (timestampdiff(MICROSECOND,'1970-01-01',utc_timestamp(6)) * 1000),
  `time_next` bigint(20) DEFAULT `time_scheduled`,
  `epoch` bigint(20) NOT NULL DEFAULT 0,
  `time_acked` bigint(20) DEFAULT NULL,
  `state` varchar(11) GENERATED ALWAYS AS (case when `time_acked` is not null then 'acked' when `epoch` > 0\
 then 'fired' else 'to_be_fired' end) VIRTUAL,
  `lease_token` bigint(20) NOT NULL DEFAULT 0,
  `k` int(11) DEFAULT 7,
  PRIMARY KEY (`id`),
  KEY `queuegate_due` (`time_acked`,`priority`,`time_next`),
  CONSTRAINT `q_times_are_nanoseconds` CHECK ((`time_scheduled` <= 0 or `time_scheduled` >= 946684800000000000) and\
 (`time_next` <= 0 or `time_next` >= 946684800000000000))
) ENGINE=InnoDB COMMENT='vitess_message,vt_ack_wait=30'"""

_MYSQL = """CREATE TABLE `q` (
  `id` bigint NOT NULL AUTO_INCREMENT,
  `time_scheduled` bigint NOT NULL DEFAULT ((timestampdiff(MICROSECOND,_utf8mb4'1970-01-01',utc_timestamp(6)) * 1000)),
  `time_next` bigint DEFAULT (`time_scheduled`),
  `epoch` bigint NOT NULL DEFAULT '0',
  `time_acked` bigint DEFAULT NULL,
  `state` varchar(11) COLLATE utf8mb4_bin GENERATED ALWAYS AS ((case when (`time_acked` is not null) then\
 _utf8mb4'acked' when (`epoch` > 0) then _utf8mb4'fired' else _utf8mb4'to_be_fired' end)) VIRTUAL,
  `lease_token` bigint NOT NULL DEFAULT '0',
  `k` int DEFAULT '7',
  PRIMARY KEY (`id`),
  KEY `queuegate_due` (`time_acked`,`priority`,`time_next`),
  CONSTRAINT `q_times_are_nanoseconds` CHECK ((((`time_scheduled` <= 0) or (`time_scheduled` >= 946684800000000000))\
 and ((`time_next` <= 0) or (`time_next` >= 946684800000000000))))
) ENGINE=InnoDB COMMENT='vitess_message,vt_ack_wait=30'"""

_EMBEDDED = """{"name":"q","columns":[{"name":"epoch"}]}CREATE TABLE `q` (
  `id` INTEGER PRIMARY KEY AUTOINCREMENT,
  `time_scheduled` BIGINT NOT NULL DEFAULT (((CAST((julianday('now')-2440587.5)*86400000 AS INTEGER)*1000) * 1000)),
  `time_next` BIGINT,
  `epoch` BIGINT NOT NULL DEFAULT 0,
  `time_acked` BIGINT,
  `state` VARCHAR(11) COLLATE NOCASE GENERATED ALWAYS AS ((CASE WHEN (NOT (`time_acked` IS NULL)) THEN 'acked'\
 WHEN (`epoch` > 0) THEN 'fired' ELSE 'to_be_fired' END)) VIRTUAL\
 CONSTRAINT `queuegate_meta_length:state` CHECK (length(`state`) <= 11),
  `lease_token` BIGINT NOT NULL DEFAULT 0,
  `k` INT DEFAULT 7,
  CONSTRAINT `q_times_are_nanoseconds` CHECK (((((`time_scheduled` <= 0) OR (`time_scheduled` >= 946684800000000000)))\
 AND (((`time_next` <= 0) OR (`time_next` >= 946684800000000000)))))
),CREATE INDEX `q:queuegate_due` ON `q` (`time_acked`, `priority`, `time_next`),CREATE TRIGGER `q:default` AFTER INSERT\
 ON `q` WHEN NEW.`time_next` IS NULL BEGIN UPDATE `q` SET `time_next` = COALESCE(`time_next`, NEW.`time_scheduled`)\
 WHERE rowid = NEW.rowid; END"""

_ALL = {"mariadb": _MARIADB, "mysql": _MYSQL, "embedded": _EMBEDDED}


def shows(text: str) -> bool:
    return lease_shows(text, {"state", "g", "h"})


def with_line(line: str, server: str = "mariadb") -> str:
    return _ALL[server].replace("  `k` ", f"  {line},\n  `k` ")


@pytest.mark.parametrize("server", _ALL)
def test_a_queue_as_it_is_made_shows_no_lease(server):
    assert not shows(_ALL[server])


@pytest.mark.parametrize("server", _ALL)
@pytest.mark.parametrize(
    "line",
    [
        "`g` int(11) GENERATED ALWAYS AS (if(`time_acked` is null,`k`,NULL)) VIRTUAL",
        "`g` int(11) GENERATED ALWAYS AS (json_extract(`body`,'$.epoch')) STORED",
        "`g` int(11) GENERATED ALWAYS AS (`h` + `epoch2`) STORED",
        "`d` int(11) DEFAULT (`k` + 1) CHECK (`k` < `time_created`)",
        "UNIQUE KEY `u` (`k`,`time_acked`)",
        "KEY `a``b` (`lease_token`,`k`)",
        "KEY `by_state` (`state`,`name`(20) DESC)",
        "PARTITION BY RANGE (`time_acked`)",
    ],
)
def test_what_names_no_column_of_the_lease_does_not_depend_on_it(server, line):
    assert not shows(with_line(line, server))


@pytest.mark.parametrize("server", _ALL)
@pytest.mark.parametrize(
    "line",
    [
        "`g` int(11) GENERATED ALWAYS AS (`EPOCH` + 1) VIRTUAL",
        "`g` int(11) GENERATED ALWAYS AS (if(`state` = 'fired',1,0)) VIRTUAL",
        "`g` int(11) GENERATED ALWAYS AS (case when `time_acked` is null then 1 when `epoch` > 0 then 2 end) VIRTUAL",
        "`d` int(11) DEFAULT `epoch`",
        "`d` bigint(20) DEFAULT (`time_next`)",
        "`d` int(11) CHECK (`epoch` < 1)",
        "CONSTRAINT `c` CHECK (`k` < `lease_token`)",
        "UNIQUE KEY `u` (`k`,`lease_token`)",
        "UNIQUE KEY `u` (`k`,`Epoch`)",
        "UNIQUE KEY `u` (`k`,`state`)",
        "UNIQUE KEY `f` (((`k` + `epoch`)))",
        "CREATE UNIQUE INDEX `q:u` ON `q` (`k`, `time_next`)",
        "CONSTRAINT `f` FOREIGN KEY (`epoch`) REFERENCES `other` (`id`)",
        "PARTITION BY RANGE (`epoch`)",
        "`g` varchar(9) DEFAULT (concat('a\n  KEY `x` (`k`) ',`epoch`))",
    ],
)
def test_what_names_one_may_depend_on_it(server, line):
    assert shows(with_line(line, server))


@pytest.mark.parametrize(
    ("server", "own", "other"),
    [
        ("mariadb", "DEFAULT `time_scheduled`", "DEFAULT (`time_scheduled` + `wait_s` * 1000000000)"),
        ("mariadb", "DEFAULT `time_scheduled`", "DEFAULT NULL"),
        ("mysql", "DEFAULT (`time_scheduled`)", "DEFAULT ((`time_scheduled` + 1))"),
        ("embedded", "NEW.`time_scheduled`)", "(NEW.`time_scheduled` + NEW.`wait_s`))"),
        ("mariadb", "utc_timestamp(6)) * 1000)", "utc_timestamp(6)) * 1000 + `delay_s` * 1000000000)"),
        ("mariadb", "(timestampdiff(MICRO", "(3600000000000 + timestampdiff(MICRO"),
        ("mysql", "((timestampdiff(MICRO", "((`delay_s` + timestampdiff(MICRO"),
        ("embedded", "*1000) * 1000))", "*1000) * 1000 + 1))"),
    ],
)
def test_with_times_of_ones_own_a_message_may_be_due_later(server, own, other):
    assert own in _ALL[server] and shows(_ALL[server].replace(own, other, 1))


@pytest.mark.parametrize("server", ["mariadb", "mysql"])
def test_the_state_may_be_of_another_type(server):
    text = _ALL[server].replace("`state` varchar(11)", "`state` enum('to_be_fired','fired','acked')")
    assert not shows(text)


def test_what_is_not_known_may_depend_on_it():
    assert shows("") and lease_shows(None, {"state"})


def test_a_column_of_ones_own_named_state_is_any_column():
    text = with_line("UNIQUE KEY `u` (`k`,`state`)")
    assert lease_shows(text, {"state"}) and not lease_shows(text, set())
