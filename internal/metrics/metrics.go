// Package metrics is the list of what Cairn measures, under the names that it has in Prometheus and in OpenTelemetry. Packages cairnprom and
// cairnotel make their metrics from it, and a test compares it with docs/observability.md.
package metrics

// Kind is how a metric counts.
type Kind string

// The kinds of metrics.
const (
	Counter   Kind = "counter"
	Gauge     Kind = "gauge"
	Histogram Kind = "histogram"
)

// Metric is one thing that is measured.
type Metric struct {
	Prometheus string
	OTel       string
	Kind       Kind
	Unit       string // as OpenTelemetry writes it
	Labels     []string
	Help       string
	Buckets    []float64 // of a histogram
}

// The labels of metrics. None has a value for each run.
const (
	Workflow  = "workflow"
	Step      = "step"
	Poll      = "poll"
	Hook      = "hook"
	Status    = "status"
	Outcome   = "outcome"
	Code      = "code"
	Found     = "found"
	Begin     = "begin"
	Namespace = "namespace"
)

var (
	runBuckets    = []float64{0.01, 0.1, 1, 10, 60, 600, 3600, 6 * 3600, 86400, 7 * 86400, 30 * 86400}
	stepBuckets   = []float64{0.001, 0.005, 0.025, 0.1, 0.5, 1, 5, 30, 120, 600, 3600}
	commitBuckets = []float64{0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5}
	batchBuckets  = []float64{1, 2, 5, 10, 25, 50, 100, 250, 500, 1000, 2000}
)

// What hooks count.
var (
	RunsStarted    = Metric{"cairn_runs_started_total", "cairn.runs.started", Counter, "{run}", []string{Workflow}, "Runs that this process started, children too.", nil}
	RunsEnded      = Metric{"cairn_runs_ended_total", "cairn.runs.ended", Counter, "{run}", []string{Workflow, Status, Code}, "Runs whose end this process wrote.", nil}
	RunDuration    = Metric{"cairn_run_duration_seconds", "cairn.run.duration", Histogram, "s", []string{Workflow, Status}, "Time from the creation of a run to its end, with all its waits.", runBuckets}
	RunsParked     = Metric{"cairn_runs_parked_total", "cairn.runs.parked", Counter, "{run}", []string{Workflow, Code}, "Runs that were stopped until somebody has looked at them.", nil}
	RunsEvicted    = Metric{"cairn_runs_evicted_total", "cairn.runs.evicted", Counter, "{run}", []string{Workflow}, "Runs that were dropped from memory while they waited.", nil}
	Executions     = Metric{"cairn_executions_total", "cairn.executions", Counter, "{execution}", []string{Workflow, Begin}, "Times that this process did something of a run between two waits, by why it began.", nil}
	StepAttempts   = Metric{"cairn_step_attempts_total", "cairn.step.attempts", Counter, "{attempt}", []string{Workflow, Step, Outcome, Code}, "Calls of step functions.", nil}
	StepDuration   = Metric{"cairn_step_duration_seconds", "cairn.step.duration", Histogram, "s", []string{Workflow, Step, Outcome}, "Time that a call of a step function took.", stepBuckets}
	PollLooks      = Metric{"cairn_poll_looks_total", "cairn.poll.looks", Counter, "{look}", []string{Workflow, Poll, Found, Code}, "Calls of the checks of polls.", nil}
	PollDuration   = Metric{"cairn_poll_look_duration_seconds", "cairn.poll.look.duration", Histogram, "s", []string{Workflow, Poll, Found}, "Time that a call of a poll's check took.", stepBuckets}
	HooksReceived  = Metric{"cairn_hooks_received_total", "cairn.hooks.received", Counter, "{delivery}", []string{Workflow, Hook}, "Values that workflows have got through their hooks.", nil}
	CommitDuration = Metric{"cairn_commit_duration_seconds", "cairn.commit.duration", Histogram, "s", nil, "Time that a transaction of the engine took.", commitBuckets}
	CommitCommands = Metric{"cairn_commit_commands", "cairn.commit.commands", Histogram, "{command}", nil, "Commands that shared a transaction.", batchBuckets}
	CommitEvents   = Metric{"cairn_commit_events_total", "cairn.commit.events", Counter, "{event}", nil, "Events that were written.", nil}
	CommitBytes    = Metric{"cairn_commit_bytes_total", "cairn.commit.bytes", Counter, "By", nil, "Bytes of payloads that were written.", nil}
)

// What an engine is asked for when somebody looks.
var (
	RunsActive          = Metric{"cairn_runs_active", "cairn.runs.active", Gauge, "{run}", []string{Namespace}, "Runs that do something in this process now.", nil}
	RunsWaiting         = Metric{"cairn_runs_waiting", "cairn.runs.waiting", Gauge, "{run}", []string{Namespace}, "Runs that wait in the memory of this process; others wait in the database alone.", nil}
	CommitQueue         = Metric{"cairn_commit_queue", "cairn.commit.queue", Gauge, "{command}", []string{Namespace}, "Commands that wait to be committed.", nil}
	LeasesLost          = Metric{"cairn_leases_lost_total", "cairn.leases.lost", Counter, "{lease}", []string{Namespace}, "Times that this process lost its runs, because it was not heard of.", nil}
	PeersDied           = Metric{"cairn_peers_died_total", "cairn.peers.died", Counter, "{process}", []string{Namespace}, "Processes that this one declared dead.", nil}
	LogLinesDropped     = Metric{"cairn_log_lines_dropped_total", "cairn.log_lines.dropped", Counter, "{line}", []string{Namespace}, "Lines that were to be kept with their runs and were not, because the database is slow.", nil}
	ObservationsDropped = Metric{"cairn_observations_dropped_total", "cairn.observations.dropped", Counter, "{call}", []string{Namespace}, "Calls of hooks that were left out, because the functions are slow: the other numbers are too small by so many.", nil}
)

// All is everything that is measured.
func All() []Metric {
	return []Metric{
		RunsStarted, RunsEnded, RunDuration, RunsParked, RunsEvicted, Executions, StepAttempts, StepDuration, PollLooks, PollDuration, HooksReceived, CommitDuration, CommitCommands, CommitEvents,
		CommitBytes, RunsActive, RunsWaiting, CommitQueue, LeasesLost, PeersDied, LogLinesDropped, ObservationsDropped,
	}
}
