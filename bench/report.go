package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
)

// row is one measured figure. The first seven keys are the same for all workloads.
type row struct {
	Bench    string  `json:"bench"`
	Store    string  `json:"store"`
	InFlight int     `json:"in_flight"`
	Value    float64 `json:"value"`
	Unit     string  `json:"unit"`
	Raw      float64 `json:"raw"`
	Ratio    float64 `json:"ratio"`

	Figure       string  `json:"figure,omitempty"` // tells the rows of one workload apart
	Pairs        int     `json:"pairs,omitempty"`
	P50          float64 `json:"p50_us,omitempty"`
	P99          float64 `json:"p99_us,omitempty"`
	RawP50       float64 `json:"raw_p50_us,omitempty"`
	RawP99       float64 `json:"raw_p99_us,omitempty"`
	CPU          float64 `json:"cpu_us,omitempty"`
	RawCPU       float64 `json:"raw_cpu_us,omitempty"`
	Statements   float64 `json:"statements,omitempty"`
	Transactions float64 `json:"transactions,omitempty"`
	Fsyncs       float64 `json:"fsyncs,omitempty"` // of the log: as many as transactions
	Bytes        float64 `json:"bytes,omitempty"`
	RawBytes     float64 `json:"raw_bytes,omitempty"`

	CPUPerRun     float64 `json:"cpu_ms_per_run,omitempty"`
	CommitsPerRun float64 `json:"commits_per_run,omitempty"`
	Append        float64 `json:"append,omitempty"` // events/s of append with 1000 callers, in the same moment
	AppendRatio   float64 `json:"append_ratio,omitempty"`
	Single        float64 `json:"single,omitempty"` // commits/s of one raw caller, in the same moment
	SingleRatio   float64 `json:"single_ratio,omitempty"`
	Note          string  `json:"note,omitempty"`
}

// compare fills in a row about how fast two sides were. CPU, statements, transactions and bytes are for each event.
func compare(bench string, db *database, inFlight int, unit string, ours, theirs []slice) row {
	a, b := total(ours), total(theirs)
	return row{
		Bench: bench, Store: db.kind, InFlight: inFlight, Value: medianRate(ours), Unit: unit, Raw: medianRate(theirs), Ratio: ratio(ours, theirs), Pairs: len(ours),
		P50: a.p50(), P99: a.quantile(0.99), RawP50: b.p50(), RawP99: b.quantile(0.99), CPU: a.perEvent(a.use.cpu), RawCPU: b.perEvent(b.use.cpu),
		Statements: a.perEvent(a.use.statements), Transactions: a.perEvent(a.use.transactions), Fsyncs: a.perEvent(a.use.transactions),
		Bytes: a.perEvent(a.use.bytes), RawBytes: b.perEvent(b.use.bytes),
	}
}

// compareLatency is compare for how long one thing takes that is done again and again: the ratio is of the medians, pair by pair.
func compareLatency(bench string, db *database, ours, theirs []slice) row {
	r := compare(bench, db, 1, "us", ours, theirs)
	r.Value, r.Raw, r.Ratio = r.P50, r.RawP50, medianRatio(ours, theirs, (*slice).p50)
	r.CommitsPerRun = r.Transactions
	return r
}

// report prints rows as they come (JSON), or as a table at the end.
type report struct {
	w     io.Writer
	table *tabwriter.Writer
}

func newReport(w io.Writer, asJSON bool) *report {
	r := &report{w: w}
	if !asJSON {
		r.table = tabwriter.NewWriter(w, 2, 8, 2, ' ', tabwriter.AlignRight)
		fmt.Fprintln(r.table, "bench\tstore\tin flight\tvalue\tunit\traw\tratio\tp50 us\traw p50\tp99 us\tcpu us\traw cpu\tstmts\ttxns\tbytes\traw bytes\t note")
	}
	return r
}

func (r *report) add(x row) error {
	if r.table == nil {
		return json.NewEncoder(r.w).Encode(x)
	}
	name := strings.TrimSpace(x.Bench + " " + x.Figure)
	_, err := fmt.Fprintf(r.table, "%s\t%s\t%d\t%s\t%s\t%s\t%.2f\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t %s\n",
		name, x.Store, x.InFlight, number(x.Value), x.Unit, number(x.Raw), x.Ratio, cell(x.P50, 0), cell(x.RawP50, 0), cell(x.P99, 0), cell(x.CPU, 1), cell(x.RawCPU, 1),
		cell(x.Statements, 2), cell(x.Transactions, 3), cell(x.Bytes, 0), cell(x.RawBytes, 0), x.Note)
	return err
}

// number shows small figures with their fractions.
func number(v float64) string {
	if v < 100 {
		return strconv.FormatFloat(v, 'f', 2, 64)
	}
	return strconv.FormatFloat(v, 'f', 0, 64)
}

// cell shows a figure that not all rows have.
func cell(v float64, digits int) string {
	if v == 0 {
		return "-"
	}
	return strconv.FormatFloat(v, 'f', digits, 64)
}

func (r *report) flush() error {
	if r.table == nil {
		return nil
	}
	return r.table.Flush()
}
