package main

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"
)

// Ordinary SQL as applications write it.

const text = "x' OR 1=1 -- \\ \" % ? 🎉 C:\\new Größe 日本"

// Parameters spliced in by the driver, and sent to statements prepared on the server.
var ways = []string{"interpolateParams=true", "interpolateParams=false"}

func types(t target) {
	for _, way := range ways {
		db := t.open(way)
		exec(db, "DROP TABLE IF EXISTS go_types")
		exec(db, "CREATE TABLE go_types (id INT AUTO_INCREMENT PRIMARY KEY, a TINYINT, b SMALLINT UNSIGNED, c INT, d BIGINT,"+
			" e FLOAT, f DOUBLE, g DECIMAL(30,10), h VARCHAR(200), i VARBINARY(300), j DATE, k DATETIME(6), l TIME(6),"+
			" m LONGTEXT, n LONGBLOB, o TIMESTAMP NULL, p BOOLEAN, q CHAR(5), r YEAR, t ENUM('x','y'), u MEDIUMINT)")
		all := make([]byte, 256)
		for i := range all {
			all[i] = byte(i)
		}
		insert := "INSERT INTO go_types (a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, t, u) VALUES (" +
			strings.Repeat("?, ", 19) + "?)"
		moment := time.Date(2026, 12, 31, 23, 59, 59, 123456000, time.UTC)
		values := []any{-128, 65535, -1 << 31, int64(1<<63 - 1), 1.5, -1.25e100, "-12345.0123456789", text, all,
			moment.Truncate(24 * time.Hour), moment, "-11:03:05.25", strings.Repeat("y", 70_000) + "é", make([]byte, 300_000),
			time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC), true, "", 2026, "y", -8388608}
		say("inserted %d", exec(db, insert, values...))
		say("inserted %d", exec(db, insert, make([]any, len(values))...))
		for _, where := range []string{"id >= ?", "h = ?", "k <= ?", "g < ?"} {
			argument := map[byte]any{'i': 1, 'h': text, 'k': moment, 'g': 0}[where[0]]
			rows, err := db.QueryContext(deadline(), "SELECT * FROM go_types WHERE "+where+" ORDER BY id", argument)
			must(err)
			if where[0] == 'i' {
				columns, err := rows.ColumnTypes()
				must(err)
				for _, column := range columns {
					nullable, _ := column.Nullable()
					precision, scale, _ := column.DecimalSize()
					say("column %s %s %v %d %d %v", column.Name(), column.DatabaseTypeName(), nullable, precision, scale,
						column.ScanType())
				}
			}
			print(rows, true)
			must(rows.Close())
		}
		exec(db, "DROP TABLE go_types")
		must(db.Close())
	}
}

func manyRows(t target) {
	for _, way := range ways {
		db := t.open(way)
		exec(db, "DROP TABLE IF EXISTS go_rows")
		exec(db, "CREATE TABLE go_rows (n INT PRIMARY KEY, s VARCHAR(200))")
		insert, err := db.PrepareContext(deadline(), "INSERT INTO go_rows (n, s) VALUES (?, ?)")
		must(err)
		for n := 0; n < 200; n++ {
			_, err = insert.ExecContext(deadline(), n, strings.Repeat("é", n%200))
			must(err)
		}
		must(insert.Close())
		for n := 200; n < 5000; n += 600 {
			var values []string
			for i := n; i < n+600; i++ {
				values = append(values, fmt.Sprintf("(%d, REPEAT('z', %d))", i, i%200))
			}
			exec(db, "INSERT INTO go_rows (n, s) VALUES "+strings.Join(values, ", "))
		}
		rows, err := db.QueryContext(deadline(), "SELECT n, s FROM go_rows WHERE n >= ? ORDER BY n", 100)
		must(err)
		count, sum := 0, 0
		for rows.Next() {
			var n int
			var s string
			must(rows.Scan(&n, &s))
			count, sum = count+1, sum+n*31+len(s)
		}
		must(rows.Err())
		say("%d rows, %d", count, sum)
		for i := 0; i < 3; i++ { // left half read: the driver reads the rest or gives the connection up
			rows, err = db.QueryContext(deadline(), "SELECT n FROM go_rows ORDER BY n")
			must(err)
			rows.Next()
			must(rows.Close())
		}
		query(db, "SELECT COUNT(*) FROM go_rows")
		exec(db, "DROP TABLE go_rows")
		must(db.Close())
	}
}

func keys(t target) {
	db := t.open("interpolateParams=false")
	exec(db, "DROP TABLE IF EXISTS go_keys")
	exec(db, "CREATE TABLE go_keys (id BIGINT AUTO_INCREMENT PRIMARY KEY, s VARCHAR(20) UNIQUE, n INT DEFAULT 0)")
	for _, values := range []string{"('a')", "('b'), ('c'), ('d')", "('e') ON DUPLICATE KEY UPDATE n = n + 1", "('a') ON DUPLICATE KEY UPDATE n = n + 1"} {
		result, err := db.ExecContext(deadline(), "INSERT INTO go_keys (s) VALUES "+values)
		must(err)
		id, _ := result.LastInsertId()
		count, _ := result.RowsAffected()
		say("id %d, count %d", id, count)
	}
	say("changed %d", exec(db, "UPDATE go_keys SET n = 0"))
	found := t.open("clientFoundRows=true")
	say("found %d", exec(found, "UPDATE go_keys SET n = 0"))
	must(found.Close())
	exec(db, "DROP TABLE go_keys")
	must(db.Close())
}

func transactions(t target) {
	db := t.open("interpolateParams=true")
	exec(db, "DROP TABLE IF EXISTS go_account")
	exec(db, "CREATE TABLE go_account (id INT PRIMARY KEY, balance INT) ENGINE=InnoDB")
	for _, commit := range []bool{false, true} {
		tx, err := db.BeginTx(deadline(), nil)
		must(err)
		exec(tx, "INSERT INTO go_account VALUES (?, ?), (?, ?)", 1, 100, 2, 100)
		say("seen by others: %d", number(db, "SELECT COUNT(*) FROM go_account"))
		if commit {
			must(tx.Commit())
		} else {
			must(tx.Rollback())
		}
		say("afterwards: %d", number(db, "SELECT COUNT(*) FROM go_account"))
	}
	for _, level := range []sql.IsolationLevel{sql.LevelReadCommitted, sql.LevelRepeatableRead, sql.LevelSerializable} {
		tx, err := db.BeginTx(deadline(), &sql.TxOptions{Isolation: level})
		must(err)
		exec(tx, "SAVEPOINT one")
		exec(tx, "UPDATE go_account SET balance = balance - 10 WHERE id = 1")
		exec(tx, "ROLLBACK TO SAVEPOINT one")
		exec(tx, "UPDATE go_account SET balance = balance + 1 WHERE id = 2")
		must(tx.Commit())
	}
	tx, err := db.BeginTx(deadline(), &sql.TxOptions{ReadOnly: true})
	must(err)
	_, err = tx.ExecContext(deadline(), "DELETE FROM go_account")
	say("read only: %s", code(err))
	must(tx.Rollback())
	query(db, "SELECT * FROM go_account ORDER BY id")
	ctx, stop := context.WithCancel(context.Background())
	tx, err = db.BeginTx(ctx, nil)
	must(err)
	exec(tx, "DELETE FROM go_account")
	stop() // the driver hangs up or rolls back
	say("after the end: %v", tx.Commit() != nil)
	query(db, "SELECT COUNT(*) FROM go_account")
	exec(db, "DROP TABLE go_account")
	must(db.Close())
}

func mistakes(t target) {
	for _, way := range ways {
		db := t.open(way)
		exec(db, "DROP TABLE IF EXISTS go_errors")
		exec(db, "CREATE TABLE go_errors (id INT PRIMARY KEY, s VARCHAR(3) NOT NULL)")
		exec(db, "INSERT INTO go_errors VALUES (1, 'a')")
		for _, statement := range []string{
			"INSERT INTO go_errors VALUES (?, 'b')",
			"INSERT INTO go_errors VALUES (? + 1, NULL)",
			"INSERT INTO go_errors VALUES (? + 1, 'too long')",
			"INSERT INTO go_errors (nope) VALUES (?)",
			"INSERT INTO go_missing VALUES (?)",
			"SELEC ?",
		} {
			_, err := db.ExecContext(deadline(), statement, 1)
			say("%s: %s", statement, code(err))
		}
		query(db, "SELECT COUNT(*) FROM go_errors")
		exec(db, "DROP TABLE go_errors")
		must(db.Close())
	}
	missing := t.openDatabase("go_no_such_database", "")
	say("unknown database: %s", code(missing.PingContext(deadline())))
	must(missing.Close())
}

func severalResults(t target) {
	db := t.open("multiStatements=true&interpolateParams=true")
	exec(db, "DROP TABLE IF EXISTS go_several")
	say("count %d", exec(db, "CREATE TABLE go_several (n INT); INSERT INTO go_several VALUES (1), (2); UPDATE go_several SET n = n + 1"))
	query(db, "SELECT n FROM go_several ORDER BY n; SELECT ';', ?; SELECT COUNT(*) FROM go_several", "it's")
	rows, err := db.QueryContext(deadline(), "SELECT 1; SELECT * FROM go_missing; SELECT 2")
	must(err)
	for rows.Next() {
	}
	say("next %v: %s", rows.NextResultSet(), code(rows.Err()))
	must(rows.Close())
	exec(db, "DROP TABLE go_several")
	must(db.Close())
	db = t.open("")
	_, err = db.ExecContext(deadline(), "SELECT 1; SELECT 2")
	say("not allowed: %s", code(err))
	must(db.Close())
}

func session(t target) {
	db := t.open("charset=utf8mb4&collation=utf8mb4_bin&time_zone=%27%2B02%3A00%27&sql_mode=%27ANSI_QUOTES%27")
	query(db, "SELECT @@session.time_zone, @@session.sql_mode, FROM_UNIXTIME(86400), @@collation_connection")
	connection, err := db.Conn(deadline())
	must(err)
	exec(connection, "SET @mine = 7")
	exec(connection, "CREATE TEMPORARY TABLE go_temporary (n INT)")
	exec(connection, "INSERT INTO go_temporary VALUES (1)")
	query(connection, "SELECT n, @mine FROM go_temporary")
	must(connection.PingContext(deadline()))
	exec(connection, "USE "+t.database)
	must(connection.Close())
	must(db.Close())
	db = t.open("charset=latin1")
	query(db, "SELECT CHAR_LENGTH('Gr\xf6\xdfe'), 'Gr\xf6\xdfe'")
	must(db.Close())
}

// A context that ends while the statement runs: the driver hangs up. The pool goes on with another connection.
func cancel(t target) {
	db := t.open("")
	ctx, stop := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer stop()
	began := time.Now()
	_, err := db.ExecContext(ctx, "DO SLEEP(8)")
	say("timeout: %s, in time: %v", code(err), time.Since(began) < 7*time.Second)
	query(db, "SELECT 'goes on'")
	must(db.Close())
}

func pool(t target) {
	db := t.open("interpolateParams=true")
	db.SetMaxOpenConns(8)
	exec(db, "DROP TABLE IF EXISTS go_pool")
	exec(db, "CREATE TABLE go_pool (n INT PRIMARY KEY)")
	var all sync.WaitGroup
	failures := make(chan any, 32)
	for worker := 0; worker < 16; worker++ {
		all.Add(1)
		go func(worker int) {
			defer all.Done()
			defer func() {
				if reason := recover(); reason != nil {
					failures <- reason
				}
			}()
			for n := 0; n < 20; n++ {
				exec(db, "INSERT INTO go_pool VALUES (?)", worker*100+n)
				number(db, "SELECT COUNT(*) FROM go_pool")
			}
		}(worker)
	}
	all.Wait()
	close(failures)
	for reason := range failures {
		panic(reason)
	}
	query(db, "SELECT COUNT(*), SUM(n) FROM go_pool")
	exec(db, "DROP TABLE go_pool")
	must(db.Close())
}

// What takes a database server behind.

func procedures(t target) {
	db := t.open("multiStatements=true")
	exec(db, "DROP PROCEDURE IF EXISTS go_totals")
	exec(db, "CREATE PROCEDURE go_totals (IN a INT, OUT b INT) BEGIN SELECT a AS first; SELECT 7, 8; SET b = a * 2; END")
	connection, err := db.Conn(deadline())
	must(err)
	query(connection, "CALL go_totals(3, @b)")
	query(connection, "SELECT @b")
	query(connection, "CALL go_totals(?, @b)", 4)
	query(connection, "SELECT @b")
	must(connection.Close())
	_, err = db.ExecContext(deadline(), "SIGNAL SQLSTATE '45001' SET MESSAGE_TEXT = 'ours: Größe', MYSQL_ERRNO = 5001")
	say("signal: %s %v", code(err), err)
	exec(db, "DROP PROCEDURE go_totals")
	must(db.Close())
}

func loadData(t target) {
	file, err := os.CreateTemp("", "rows")
	must(err)
	defer os.Remove(file.Name())
	for n := 0; n < 20_000; n++ {
		fmt.Fprintf(file, "%d\trow %d é\n", n, n)
	}
	must(file.Close())
	db := t.open("allowAllFiles=true")
	exec(db, "DROP TABLE IF EXISTS go_load")
	exec(db, "CREATE TABLE go_load (n INT, s VARCHAR(40))")
	say("loaded %d", exec(db, "LOAD DATA LOCAL INFILE '"+file.Name()+"' INTO TABLE go_load CHARACTER SET utf8mb4"))
	query(db, "SELECT COUNT(*), SUM(n), MAX(s) FROM go_load")
	_, err = db.ExecContext(deadline(), "LOAD DATA LOCAL INFILE '/nowhere/at/all' INTO TABLE go_load")
	say("no such file: %v", err != nil)
	query(db, "SELECT COUNT(*) FROM go_load")
	must(db.Close())
	db = t.open("allowAllFiles=false")
	_, err = db.ExecContext(deadline(), "LOAD DATA LOCAL INFILE '"+file.Name()+"' INTO TABLE go_load")
	say("not allowed: %v", strings.ReplaceAll(err.Error(), file.Name(), "the file"))
	query(db, "SELECT COUNT(*) FROM go_load")
	exec(db, "DROP TABLE go_load")
	must(db.Close())
}

func large(t target) {
	content := make([]byte, 18<<20)
	for i := range content {
		content[i] = byte(i*31 + i>>12)
	}
	for _, way := range ways {
		db := t.open(way + "&maxAllowedPacket=67108864")
		exec(db, "DROP TABLE IF EXISTS go_large")
		exec(db, "CREATE TABLE go_large (id INT AUTO_INCREMENT PRIMARY KEY, x LONGBLOB)")
		exec(db, "INSERT INTO go_large (x) VALUES (?)", content)
		query(db, "SELECT id, LENGTH(x), CRC32(x) FROM go_large")
		query(db, "SELECT x, id FROM go_large WHERE id = ?", 1)
		exec(db, "DROP TABLE go_large")
		must(db.Close())
	}
}
