package main

import (
	"context"
	"database/sql"
	"fmt"
)

// A queue in plain SQL, start to end. Every language's client tells the same story; the test knows it by heart.

const goQueue = "go_queue"

func queue(t target) {
	db := t.open("interpolateParams=false")
	exec(db, "DROP QUEUE IF EXISTS "+goQueue)
	exec(db, "CREATE QUEUE "+goQueue+" (n INT, payload VARCHAR(100), body BLOB) WITH (ack_wait = '5m')")
	connection, err := db.Conn(deadline())
	must(err)
	enqueue(db)
	receive(connection)
	settle(connection)
	stream(db)
	states(db)
	exec(db, "DROP QUEUE "+goQueue)
	must(connection.Close())
	must(db.Close())
}

func enqueue(db *sql.DB) {
	insert := "INSERT INTO " + goQueue + " (n, payload, body) VALUES (?, ?, ?)"
	tx, err := db.BeginTx(deadline(), nil)
	must(err)
	exec(tx, insert, 0, "undone", nil)
	must(tx.Rollback())
	tx, err = db.BeginTx(deadline(), nil)
	must(err)
	count := exec(tx, insert, 10, "Größe 🎉 日本", []byte{0, 255})
	count += exec(tx, insert, 11, `it's \ "quoted" %s ?`, nil)
	count += exec(tx, insert, nil, nil, []byte{})
	must(tx.Commit())
	say("enqueued %d", count)
}

func receive(connection *sql.Conn) {
	columns := "SELECT n, payload, body FROM STREAM " + goQueue
	messages(connection, columns+" LIMIT 2")
	messages(connection, columns+" LIMIT ? WAIT ?", 1, 10)
	for _, nothing := range []string{" LIMIT 5 NOWAIT", " LIMIT 5 WAIT 0.1"} {
		rows, err := connection.QueryContext(deadline(), columns+nothing)
		must(err)
		if rows.Next() {
			say("due: something")
		} else {
			say("due: nothing")
		}
		must(rows.Err())
	}
}

func messages(connection *sql.Conn, statement string, arguments ...any) {
	rows, err := connection.QueryContext(deadline(), statement, arguments...)
	must(err)
	defer rows.Close()
	for rows.Next() {
		var n sql.NullInt64
		var payload sql.NullString
		var body []byte
		must(rows.Scan(&n, &payload, &body))
		line := "row | NULL"
		if n.Valid {
			line = fmt.Sprintf("row | %d", n.Int64)
		}
		if payload.Valid {
			line += " | " + payload.String
		} else {
			line += " | NULL"
		}
		if body == nil {
			say("%s | NULL", line)
		} else {
			say("%s | 0x%x", line, body)
		}
	}
	must(rows.Err())
}

func settle(connection *sql.Conn) {
	for _, n := range []int{10, 10, 11} {
		id := number(connection, fmt.Sprintf("SELECT id FROM %s WHERE n = %d", goQueue, n))
		say("acked %d", exec(connection, "ACK "+goQueue+" ?", id))
	}
	tx, err := connection.BeginTx(deadline(), nil)
	must(err)
	say("acked %d", exec(tx, "ACK "+goQueue+" WHERE payload IS NULL"))
	must(tx.Rollback())
	states(connection)
	_, err = connection.ExecContext(deadline(), "ACK "+goQueue+"_missing 1")
	say("error %s", code(err))
}

// Row by row, each acked on the other connection before the next is sent; ended by KILL QUERY.
func stream(db *sql.DB) {
	receiver, err := db.Conn(deadline())
	must(err)
	id := number(receiver, "SELECT CONNECTION_ID()")
	rows, err := receiver.QueryContext(context.Background(), "SELECT id, n FROM STREAM "+goQueue)
	must(err)
	for n := 100; n < 105; n++ {
		exec(db, "INSERT INTO "+goQueue+" (n) VALUES (?)", n)
		if !rows.Next() {
			panic(rows.Err())
		}
		var message, got int64
		must(rows.Scan(&message, &got))
		say("streamed %d, acked %d", got, exec(db, "ACK "+goQueue+" ?", message))
	}
	exec(db, fmt.Sprintf("KILL QUERY %d", id))
	if rows.Next() {
		panic("a row after the end")
	}
	say("ended %s", code(rows.Err()))
	must(rows.Close())
	say("goes on %d", number(receiver, "SELECT 1"))
	must(receiver.Close())
}

// A stream whose context ends: the driver hangs up, and what was not acked goes to another receiver at once.
func hangUp(t target) {
	db := t.open("")
	exec(db, "DROP QUEUE IF EXISTS go_hang_up")
	exec(db, "CREATE QUEUE go_hang_up (n INT) WITH (ack_wait = '10m')")
	exec(db, "INSERT INTO go_hang_up (n) VALUES (7)")
	ctx, stop := context.WithCancel(deadline())
	rows, err := db.QueryContext(ctx, "SELECT id, n, epoch FROM STREAM go_hang_up")
	must(err)
	if !rows.Next() {
		panic(rows.Err())
	}
	say("received %v", scan(rows, 3))
	stop()
	for rows.Next() {
		panic("a row after the end")
	}
	say("ended: %s", code(rows.Err()))
	query(db, "SELECT id, n, epoch FROM STREAM go_hang_up LIMIT 1 WAIT 30")
	exec(db, "DROP QUEUE go_hang_up")
	must(db.Close())
}

func states(on runner) {
	rows, err := on.QueryContext(deadline(), "SELECT state, COUNT(*) FROM "+goQueue+" GROUP BY state ORDER BY 1")
	must(err)
	defer rows.Close()
	for rows.Next() {
		var state string
		var count int64
		must(rows.Scan(&state, &count))
		say("%s %d", state, count)
	}
}
