package export

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/version"
)

const (
	// Format is the name of the format, which stands in the first and in the last line.
	Format = "cairn.run"
	// Version is the version of the format that is written: major, minor. A reader takes every minor version of a major one that it knows.
	Version = "1.0"

	major = 1

	// maxLine is how long a line may be: two values of the greatest size as base64, and what else an event can say.
	maxLine = 64 << 20
	// maxView is the size in bytes above which the readable form of a value is left out: nobody reads that.
	maxView = 1 << 20
)

// Header is the first line: which run it is, and who wrote the file.
type Header struct {
	Format    string `json:"format"`
	Version   string `json:"version"`
	Cairn     string `json:"cairn"` // the build that wrote the file
	Namespace string `json:"namespace"`
	Run       string `json:"run"`
	Workflow  string `json:"workflow"`
	Dialect   string `json:"dialect"`
	Status    string `json:"status"`
	Phase     string `json:"phase,omitempty"` // "parked" or "cancelling"
}

// line is an event.
type line struct {
	Seq  int64        `json:"seq"`
	At   journal.Time `json:"at"`
	Type string       `json:"type"`
	Key  string       `json:"key,omitempty"`
	// Entity is left out where it follows from the key.
	Entity string          `json:"entity,omitempty"`
	Data   json.RawMessage `json:"data,omitempty"`
	// Raw is the data as the journal has it, and stands for Data, where JSON cannot say it: texts that are not UTF-8, years beyond 9999.
	Raw    []byte `json:"raw,omitempty"`
	Input  *value `json:"input,omitempty"`
	Output *value `json:"output,omitempty"`
}

// value is one of the user's values, in its envelope.
type value struct {
	Bytes []byte `json:"bytes"`
	// View is the value as JSON, for people: it is not read. It is missing where the value is encrypted, or very long.
	View json.RawMessage `json:"view,omitempty"`
}

// last is the last line. A file without it was cut off.
type last struct {
	End    string `json:"end"`
	Events int64  `json:"events"`
}

func newHeader(namespace string, run *journal.Run) Header {
	return Header{
		Format: Format, Version: Version, Cairn: version.Get().String(), Namespace: namespace, Run: journal.PrefixRun.Format(run.ID),
		Workflow: run.Workflow, Dialect: run.Dialect.String(), Status: run.Status.String(), Phase: run.Phase(),
	}
}

// check refuses a header of something else, or of a format that is too new.
func (h *Header) check() error {
	if h.Format != Format {
		return cairnerr.Errorf(cairnerr.CodeMalformed, `not an exported run: want "format": %q, and it is %.64q`, Format, h.Format)
	}
	number, _, _ := strings.Cut(h.Version, ".")
	n, err := strconv.ParseUint(number, 10, 32)
	switch {
	case err != nil || n == 0:
		return cairnerr.Errorf(cairnerr.CodeMalformed, `bad version %.64q: want two numbers, for example %q`, h.Version, Version)
	case n > major:
		return cairnerr.Errorf(cairnerr.CodeFormatTooNew, "the file has version %.64s of the format, and this program reads %d.x: upgrade Cairn", h.Version, major)
	}
	return journal.CheckNamespace(h.Namespace)
}
