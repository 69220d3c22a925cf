package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"hash/crc32"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
)

// How values, rows and errors are written into the transcript: one line each, long values as length and checksum.

const long = 200

func say(format string, values ...any) {
	fmt.Printf(format+"\n", values...)
}

func shown(value any) string {
	switch v := value.(type) {
	case nil:
		return "NULL"
	case []byte:
		if len(v) > long {
			return checksum(v)
		}
		return fmt.Sprintf("%q", v)
	case string:
		if len(v) > long {
			return checksum([]byte(v))
		}
		return v
	case time.Time:
		return v.UTC().Format(time.RFC3339Nano)
	}
	return fmt.Sprint(value)
}

func checksum(value []byte) string {
	return fmt.Sprintf("%d bytes, crc %08x", len(value), crc32.ChecksumIEEE(value))
}

// must ends the section; main reports it.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

// code is a server's error as its number and state, without words: they differ between servers.
func code(err error) string {
	var refused *mysql.MySQLError
	if errors.As(err, &refused) {
		return fmt.Sprintf("%d %s", refused.Number, refused.SQLState)
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return err.Error()
	}
	return fmt.Sprintf("%T %v", err, err)
}

type runner interface {
	ExecContext(ctx context.Context, sql string, arguments ...any) (sql.Result, error)
	QueryContext(ctx context.Context, sql string, arguments ...any) (*sql.Rows, error)
}

// exec returns how many rows a statement changed.
func exec(on runner, statement string, arguments ...any) int64 {
	result, err := on.ExecContext(deadline(), statement, arguments...)
	must(err)
	count, err := result.RowsAffected()
	must(err)
	return count
}

func query(on runner, statement string, arguments ...any) {
	rows, err := on.QueryContext(deadline(), statement, arguments...)
	must(err)
	defer rows.Close()
	print(rows, false)
}

// print writes every row of every result, each value with the Go type that the driver chose for it if `types`.
func print(rows *sql.Rows, types bool) {
	for {
		names, err := rows.Columns()
		must(err)
		for rows.Next() {
			values := scan(rows, len(names))
			words := make([]string, len(values))
			for i, value := range values {
				words[i] = shown(value)
				if types && value != nil {
					words[i] += fmt.Sprintf(" : %T", value)
				}
			}
			say("row | %s", strings.Join(words, " | "))
		}
		must(rows.Err())
		if !rows.NextResultSet() {
			must(rows.Err())
			return
		}
		say("next result")
	}
}

func scan(rows *sql.Rows, count int) []any {
	values := make([]any, count)
	targets := make([]any, count)
	for i := range values {
		targets[i] = &values[i]
	}
	must(rows.Scan(targets...))
	return values
}

func number(on runner, statement string) int64 {
	rows, err := on.QueryContext(deadline(), statement)
	must(err)
	defer rows.Close()
	var value int64
	if !rows.Next() {
		panic("no row: " + statement)
	}
	must(rows.Scan(&value))
	return value
}

var whole context.Context // ends whatever hangs

func deadline() context.Context { return whole }
