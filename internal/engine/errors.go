package engine

import (
	"errors"

	"github.com/cairn-workflow/cairn/cairnerr"
)

// ErrLost is the cause of a context whose branch lost a race.
var ErrLost = &cairnerr.Error{Code: cairnerr.CodeLost, Message: "another branch was faster"}

// ErrEvicted is the cause of a context whose run was dropped from memory while it waited. It goes on from the journal when it is due.
var ErrEvicted = &cairnerr.Error{Code: cairnerr.CodeEvicted, Message: "the run was dropped from memory"}

// ErrStopped is the cause of a context whose engine stops.
var ErrStopped = errors.New("the engine stops")

// ErrCancelled is the cause of a context whose run was asked to stop.
var ErrCancelled = &cairnerr.Error{Code: cairnerr.CodeCancelled, Message: "the run was cancelled"}
