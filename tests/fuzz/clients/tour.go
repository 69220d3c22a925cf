// What go-sql-driver says: prepared and interpolated statements, a transaction, a stream, a wrong password.
package main

import (
	"database/sql"
	"log"
	"os"
	"time"

	_ "github.com/go-sql-driver/mysql"
)

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func read(rows *sql.Rows, err error) {
	must(err)
	for rows.Next() {
	}
	must(rows.Close())
}

func main() {
	address := "@tcp(127.0.0.1:" + os.Args[1] + ")/main?parseTime=true&multiStatements=true"
	db, err := sql.Open("mysql", "root"+address)
	must(err)
	db.SetMaxOpenConns(1)
	read(db.Query("SELECT 1"))
	read(db.Query("SELECT id, name, n, d, b FROM ft WHERE id < ?", 3))
	_, err = db.Exec("INSERT INTO ft (name, n, d, b) VALUES (?, ?, ?, ?)", "go", 1.5, time.Unix(0, 0), []byte{0, 255})
	must(err)
	tx, err := db.Begin()
	must(err)
	_, err = tx.Exec("INSERT INTO fq (payload) VALUES (?)", "from go")
	must(err)
	must(tx.Commit())
	read(db.Query("SELECT id, payload FROM STREAM fq LIMIT ? NOWAIT", 1))
	_, err = db.Exec("ACK fq 2")
	must(err)
	_, _ = db.Exec("no SQL at all")
	must(db.Close())
	wrong, err := sql.Open("mysql", "app:wrong"+address)
	must(err)
	_ = wrong.Ping()
	right, err := sql.Open("mysql", "app:secret"+address)
	must(err)
	must(right.Ping())
	must(right.Close())
}
