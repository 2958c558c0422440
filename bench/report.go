package main

import (
	"encoding/json"
	"fmt"
	"io"
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

	Pairs        int     `json:"pairs,omitempty"`
	P50          float64 `json:"p50_us,omitempty"`
	P99          float64 `json:"p99_us,omitempty"`
	RawP50       float64 `json:"raw_p50_us,omitempty"`
	RawP99       float64 `json:"raw_p99_us,omitempty"`
	CPU          float64 `json:"cpu_us,omitempty"`
	RawCPU       float64 `json:"raw_cpu_us,omitempty"`
	Statements   float64 `json:"statements,omitempty"`
	Transactions float64 `json:"transactions,omitempty"`
	Bytes        float64 `json:"bytes,omitempty"`
	RawBytes     float64 `json:"raw_bytes,omitempty"`
	Note         string  `json:"note,omitempty"`
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
	_, err := fmt.Fprintf(r.table, "%s\t%s\t%d\t%.0f\t%s\t%.0f\t%.2f\t%.0f\t%.0f\t%.0f\t%.1f\t%.1f\t%.2f\t%.3f\t%.0f\t%.0f\t %s\n",
		x.Bench, x.Store, x.InFlight, x.Value, x.Unit, x.Raw, x.Ratio, x.P50, x.RawP50, x.P99, x.CPU, x.RawCPU, x.Statements, x.Transactions, x.Bytes, x.RawBytes, x.Note)
	return err
}

func (r *report) flush() error {
	if r.table == nil {
		return nil
	}
	return r.table.Flush()
}
