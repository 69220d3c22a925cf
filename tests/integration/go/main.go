// A client in Go: runs sections named on the command line and prints what it saw, line by line. The transcript of a
// run through the proxy is compared with that of a run without it, so nothing that differs from run to run is printed.
//
// Arguments: host, port, user, database, sections.
package main

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"time"

	"github.com/go-sql-driver/mysql"
)

// target is where to connect.
type target struct{ host, port, user, database string }

// open makes a pool; options are those of the driver's DSN.
func (t target) open(options string) *sql.DB {
	return t.openDatabase(t.database, options)
}

func (t target) openDatabase(database, options string) *sql.DB {
	dsn := fmt.Sprintf("%s@tcp(%s:%s)/%s?timeout=20s&readTimeout=60s&parseTime=true&%s", t.user, t.host, t.port, database, options)
	pool, err := sql.Open("mysql", dsn)
	must(err)
	return pool
}

var sections = map[string]func(target){
	"types":           types,
	"rows":            manyRows,
	"keys":            keys,
	"transactions":    transactions,
	"errors":          mistakes,
	"several_results": severalResults,
	"session":         session,
	"cancel":          cancel,
	"pool":            pool,
	"statements":      statements,
	"procedures":      procedures,
	"load_data":       loadData,
	"large":           large,
	"queue":           queue,
	"hang_up":         hangUp,
}

type silent struct{}

func (silent) Print(...any) {}

func run(name string, t target) (failed bool) {
	defer func() {
		if reason := recover(); reason != nil {
			say("-- failed: %v", reason)
			failed = true
		}
	}()
	say("== %s", name)
	sections[name](t)
	say("-- done")
	return false
}

func main() {
	must(mysql.SetLogger(silent{})) // what it logs is in the errors too
	var stop context.CancelFunc
	whole, stop = context.WithTimeout(context.Background(), 100*time.Second)
	defer stop()
	t := target{os.Args[1], os.Args[2], os.Args[3], os.Args[4]}
	failed := false
	for _, name := range os.Args[5:] {
		failed = run(name, t) || failed
	}
	if failed {
		os.Exit(1)
	}
}
