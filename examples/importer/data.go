package main

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Customer is one row.
type Customer struct {
	ID    int
	Name  string
	Email string
	Cents int64 // what the customer owes
}

// columns are the first line of a file.
var columns = []string{"id", "name", "email", "cents"}

// line is a line of a file, and its number in it, from 1.
type line struct {
	number int
	fields []string
}

// readLines iterates over the rows of a file, without the first line, which names the columns.
func readLines(path string) iter.Seq2[line, error] {
	return func(yield func(line, error) bool) {
		file, err := os.Open(path)
		if err != nil {
			yield(line{}, err)
			return
		}
		defer file.Close() //nolint:errcheck // it was only read
		r := csv.NewReader(file)
		r.FieldsPerRecord = len(columns)
		for number := 1; ; number++ {
			fields, err := r.Read()
			if errors.Is(err, io.EOF) {
				return
			}
			if err == nil && number == 1 {
				if got := strings.Join(fields, ","); got != strings.Join(columns, ",") {
					err = fmt.Errorf("%s has the columns %s, not %s", filepath.Base(path), got, strings.Join(columns, ","))
				} else {
					continue
				}
			}
			if !yield(line{number, fields}, err) || err != nil {
				return
			}
		}
	}
}

// parseCustomer reads a row, or says what is wrong with it.
func parseCustomer(fields []string) (Customer, error) {
	c := Customer{Name: strings.TrimSpace(fields[1]), Email: fields[2]}
	var err error
	if c.ID, err = strconv.Atoi(fields[0]); err != nil || c.ID < 1 {
		return c, fmt.Errorf("id %q is no number above 0", fields[0])
	}
	if c.Name == "" {
		return c, fmt.Errorf("customer %d has no name", c.ID)
	}
	if user, host, ok := strings.Cut(c.Email, "@"); !ok || user == "" || host == "" {
		return c, fmt.Errorf("customer %d: %q is no email address", c.ID, c.Email)
	}
	if c.Cents, err = strconv.ParseInt(fields[3], 10, 64); err != nil {
		return c, fmt.Errorf("customer %d: %q is no amount in cents", c.ID, fields[3])
	}
	return c, nil
}

// badRow is where a generated file has a mistake: at three fifths of its rows.
func badRow(rows int) int { return max(rows*3/5, 1) }

// generate writes a file of customers, unless it is there. One of them has a bad email address.
func generate(path string, rows int) error {
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	var b strings.Builder
	b.WriteString(strings.Join(columns, ",") + "\n")
	for id := 1; id <= rows; id++ {
		at := "@example.com"
		if id == badRow(rows) {
			at = " at example.com"
		}
		fmt.Fprintf(&b, "%d,Customer %d,c%d%s,%d\n", id, id, id, at, 100+id%900)
	}
	return replace(path, b.String())
}

// correct mends the addresses in a file. It can be repeated.
func correct(path string) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return replace(path, strings.ReplaceAll(string(content), " at example.com", "@example.com"))
}

// replace writes a file such that a reader sees all of it, or what was there before.
func replace(path, content string) error {
	if err := os.WriteFile(path+".new", []byte(content), 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}
