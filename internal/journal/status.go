package journal

import (
	"fmt"

	"github.com/cairn-workflow/cairn/cairnerr"
)

// Dialect is the law that a run's journal obeys, fixed when the run is created.
type Dialect uint8

// The dialects.
const (
	Engine Dialect = 0 // executed by Cairn: an owner, memoised steps, late results refused
	World3 Dialect = 1 // executed by a "use workflow" app of World spec version 5 or less
	World6 Dialect = 2 // executed by a "use workflow" app of World spec version 6 or more

	dialects = 3
)

// MaxSpec is the newest World spec version that this program reads.
const MaxSpec = 7

var dialectNames = [dialects]string{Engine: "engine", World3: "world3", World6: "world6"}

// DialectOfSpec returns the dialect of a World spec version; 0 is Cairn's own.
func DialectOfSpec(spec int) Dialect {
	switch {
	case spec <= 0:
		return Engine
	case spec < 6:
		return World3
	default:
		return World6
	}
}

// String returns the name of the dialect.
func (d Dialect) String() string { return nameOf(dialectNames[:], int(d)) }

// ParseDialect reads the name of a dialect.
func ParseDialect(name string) (Dialect, error) {
	for d, n := range dialectNames {
		if n == name {
			return Dialect(d), nil
		}
	}
	return 0, cairnerr.Errorf(cairnerr.CodeMalformed, "unknown dialect %q; known are engine, world3, world6", name)
}

// Status is the state of a run or of a step.
type Status uint8

// The states. The last three are final.
const (
	StatusPending   Status = 0
	StatusRunning   Status = 1
	StatusCompleted Status = 2
	StatusFailed    Status = 3
	StatusCancelled Status = 4

	statuses = 5
)

var statusNames = [statuses]string{
	StatusPending: "pending", StatusRunning: "running", StatusCompleted: "completed", StatusFailed: "failed", StatusCancelled: "cancelled",
}

// Terminal reports whether the state is final.
func (s Status) Terminal() bool { return s >= StatusCompleted }

// String returns the name of the state.
func (s Status) String() string { return nameOf(statusNames[:], int(s)) }

// ParseStatus reads the name of a state.
func ParseStatus(name string) (Status, error) {
	for s, n := range statusNames {
		if n == name {
			return Status(s), nil
		}
	}
	return 0, cairnerr.Errorf(cairnerr.CodeMalformed, "unknown status %q; known are pending, running, completed, failed, cancelled", name)
}

// HookStatus is the state of a hook. A hook that was disposed of has no row, and so no state.
type HookStatus uint8

// The states of a hook.
const (
	HookOpen     HookStatus = 0 // takes payloads
	HookConsumed HookStatus = 1 // single use, and used: it refuses payloads and still holds its token
	HookRetained HookStatus = 2 // its run has ended: readable and holding its token until RetainUntil
)

// String returns the name of the state.
func (s HookStatus) String() string { return nameOf([]string{"open", "consumed", "retained"}, int(s)) }

func nameOf(names []string, i int) string {
	if i < len(names) {
		return names[i]
	}
	return fmt.Sprintf("unknown(%d)", i)
}
