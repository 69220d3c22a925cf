package main

import (
	"bufio"
	"database/sql"
	"os"
)

// statements is a pool of one connection: each line of the input is a statement, run on the connection that the pool
// gives for it, and answered with a line: what was in the first row, or the error.
func statements(t target) {
	db := t.open("maxAllowedPacket=0")
	db.SetMaxOpenConns(1)
	input := bufio.NewReader(os.Stdin)
	for {
		line, err := input.ReadString('\n')
		if err != nil {
			must(db.Close())
			return
		}
		value, err := first(db, line[:len(line)-1])
		if err != nil {
			say("error %s", code(err))
		} else {
			say("= %s", value)
		}
	}
}

func first(db *sql.DB, statement string) (string, error) {
	rows, err := db.QueryContext(deadline(), statement)
	if err != nil {
		return "", err
	}
	defer rows.Close()
	found := "nothing"
	for rows.Next() {
		if found == "nothing" {
			if err := rows.Scan(&found); err != nil {
				return "", err
			}
		}
	}
	return found, rows.Err()
}
