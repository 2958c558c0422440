package main

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
)

// row is one measured cell. The keys are those of Cairn's own benchmark; raw is the peer.
type row struct {
	Bench    string  `json:"bench"`
	Peer     string  `json:"peer"`
	Store    string  `json:"store"`
	InFlight int     `json:"in_flight"`
	Value    float64 `json:"value"`
	Unit     string  `json:"unit"`
	Raw      float64 `json:"raw"`
	Ratio    float64 `json:"ratio"`

	Pairs        int     `json:"pairs"`
	RatioMin     float64 `json:"ratio_min"`
	RatioMax     float64 `json:"ratio_max"`
	PeerInFlight int     `json:"peer_in_flight"`
	CPU          float64 `json:"cpu_ms"`
	PeerCPU      float64 `json:"peer_cpu_ms"`
	CPURatio     float64 `json:"cpu_ratio"`
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
		fmt.Fprintln(r.table, "bench\tpeer\tstore\truns\tpeer's runs\tunit\tcairn\tpeer\tratio\tmin\tmax\tpairs\tcpu ms/run\tpeer's cpu\tratio\t")
	}
	return r
}

func (r *report) add(x row) error {
	if r.table == nil {
		return json.NewEncoder(r.w).Encode(x)
	}
	_, err := fmt.Fprintf(r.table, "%s\t%s\t%s\t%d\t%d\t%s\t%.0f\t%.0f\t%.2f\t%.2f\t%.2f\t%d\t%.3f\t%.3f\t%.1f\t\n",
		x.Bench, x.Peer, x.Store, x.InFlight, x.PeerInFlight, x.Unit, x.Value, x.Raw, x.Ratio, x.RatioMin, x.RatioMax, x.Pairs, x.CPU, x.PeerCPU, x.CPURatio)
	return err
}

func (r *report) flush() error {
	if r.table == nil {
		return nil
	}
	return r.table.Flush()
}
