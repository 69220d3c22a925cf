// A client in Go that asks for compression, which its driver has from 1.9 on. It takes host, port, user, database and
// the name of its one section. Its driver writes to stderr where packets are numbered otherwise than it expects, which at a
// server it does for several results in one answer; so there are none.
package main

import (
	"database/sql"
	"fmt"
	"os"
	"strings"

	_ "github.com/go-sql-driver/mysql"
)

func main() {
	host, port, user, database := os.Args[1], os.Args[2], os.Args[3], os.Args[4]
	fmt.Printf("== %s\n", os.Args[5])
	address := fmt.Sprintf("%s@tcp(%s:%s)/%s?timeout=20s&readTimeout=60s&compress=true", user, host, port, database)
	interpolated, err := sql.Open("mysql", address+"&interpolateParams=true")
	must(err)
	for _, size := range []int{0, 1, 49, 50, 51, 5000, 16_385, 100_000, 1_000_000} {
		var text string
		must(interpolated.QueryRow("SELECT REPEAT('a', ?)", size).Scan(&text))
		fmt.Printf("%d characters\n", len(text))
	}
	prepared, err := sql.Open("mysql", address)
	must(err)
	for _, size := range []int{1, 100_000} {
		var length int
		var text string
		must(prepared.QueryRow("SELECT LENGTH(?), ?", strings.Repeat("e", size), strings.Repeat("f", size)).Scan(&length, &text))
		fmt.Printf("%d and %d characters\n", length, len(text))
	}
	var nothing int
	fmt.Printf("refused: %v\n", prepared.QueryRow("SELECT * FROM go_missing").Scan(&nothing) != nil)
	fmt.Println("-- done")
}

func must(err error) {
	if err != nil {
		fmt.Printf("-- failed: %v\n", err)
		os.Exit(1)
	}
}
