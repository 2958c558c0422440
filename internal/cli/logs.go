package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
)

const (
	followPause = 300 * time.Millisecond // between two looks of --follow
	lastLooks   = 3                      // after the end of the run: programs write lines a moment later
)

func newLogs(s *System) *cobra.Command {
	l := &logs{system: s}
	command := &cobra.Command{
		Use:   "logs RUN",
		Short: "Show the log lines of a run",
		Long: text(`
			Shows the lines that a run's workflow and steps have written with cairn.Logger, if they were kept: the program that
			executes the run must set KeepLogs in its configuration. Logs only reads.

			A line has its time, its level, the step and its attempt, or the branch, the message, and attributes. With --follow
			lines are shown as they come, until the run has ended or you interrupt the command.`) +
			"\n\n" + exitCodes,
		Example: text(`
			  cairn logs wrun_01K9ZXG5CVXQ3V6T5W8Y2J4M7N
			  cairn logs wrun_01K9ZXG5CVXQ3V6T5W8Y2J4M7N --follow --level warn --store postgres://localhost/app
			  cairn logs wrun_01K9ZXG5CVXQ3V6T5W8Y2J4M7N --tail 20 --json`),
		Args: cobra.ExactArgs(1),
		RunE: l.run,
	}
	storeFlag(command, &l.store)
	namespaceFlag(command, &l.namespace)
	flags := command.Flags()
	flags.StringVar(&l.level, "level", "", "show this `level` and what is more important: debug, info, warn, error")
	flags.IntVar(&l.tail, "tail", 0, "show the last `n` lines only, at most 1000")
	flags.BoolVarP(&l.follow, "follow", "f", false, "go on until the run has ended")
	flags.BoolVar(&l.asJSON, "json", false, "print one JSON object for each line")
	return command
}

// logs shows the lines of one run.
type logs struct {
	system           *System
	store, namespace string
	level            string
	tail             int
	follow, asJSON   bool

	id     journal.ID
	filter store.LogFilter
	shown  int
}

func (l *logs) run(command *cobra.Command, args []string) error {
	var err error
	if l.id, err = parseRun(args[0]); err != nil {
		return err
	}
	if l.filter.MinLevel, err = parseLevel(l.level); err != nil {
		return &usageError{err}
	}
	if l.tail < 0 || l.tail > store.MaxLimit {
		return &usageError{fmt.Errorf("--tail %d: want 1 to %d", l.tail, store.MaxLimit)}
	}
	ctx := command.Context()
	db, err := l.system.openToRead(ctx, l.store)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	return l.show(ctx, db)
}

func parseLevel(name string) (int, error) {
	if name == "" {
		return store.AllLevels, nil
	}
	var level slog.Level
	if err := level.UnmarshalText([]byte(name)); err != nil {
		return 0, fmt.Errorf("--level %s: want debug, info, warn or error", name)
	}
	return int(level), nil
}

// show shows what there is and, if it follows, what comes, until the run has ended.
func (l *logs) show(ctx context.Context, db store.Store) error {
	page := store.Page{Limit: store.MaxLimit}
	if l.tail > 0 {
		var err error
		if page.Cursor, err = l.showTail(ctx, db); err != nil {
			return err
		}
	}
	for last := lastLooks; last >= 0; {
		// Asked before the lines: when it says that the run has ended, the run says no more; what waits to be written comes soon.
		run, err := db.Run(ctx, l.namespace, l.id, store.ResolveNone)
		if err != nil {
			return err
		}
		if l.tail == 0 || l.follow {
			if err := l.showFrom(ctx, db, &page); err != nil {
				return err
			}
		}
		if run.Status.Terminal() {
			last--
		}
		if !l.follow || last < 0 {
			break
		}
		select {
		case <-time.After(followPause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if l.shown == 0 && !l.asJSON {
		fmt.Fprintln(l.system.Err, "no lines: they are kept only if the program sets KeepLogs in its configuration")
	}
	return nil
}

// showFrom shows the lines after a page, which it moves.
func (l *logs) showFrom(ctx context.Context, db store.Store, page *store.Page) error {
	for {
		list, err := db.Logs(ctx, l.namespace, l.id, l.filter, *page)
		if err != nil {
			return err
		}
		for i := range list.Data {
			l.print(&list.Data[i])
		}
		if list.Cursor != "" {
			page.Cursor = list.Cursor
		}
		if !list.HasMore {
			return nil
		}
	}
}

// showTail shows the last lines, and returns where to go on.
func (l *logs) showTail(ctx context.Context, db store.Store) (string, error) {
	list, err := db.Logs(ctx, l.namespace, l.id, l.filter, store.Page{Limit: l.tail, Desc: true})
	if err != nil || len(list.Data) == 0 {
		return "", err
	}
	last := store.LogCursor(list.Data[0])
	for i := range slices.Backward(list.Data) {
		l.print(&list.Data[i])
	}
	return last, nil
}

// jsonLine is a line for programs.
type jsonLine struct {
	At      string          `json:"at"`
	Level   string          `json:"level"`
	Message string          `json:"message"`
	Step    string          `json:"step,omitempty"`
	Attempt int             `json:"attempt,omitempty"`
	Epoch   int64           `json:"epoch"`
	Attrs   json.RawMessage `json:"attrs,omitempty"`
}

func (l *logs) print(line *store.LogLine) {
	l.shown++
	level := slog.Level(line.Level).String()
	if l.asJSON {
		out := jsonLine{At: line.At.String(), Level: level, Message: line.Message, Step: line.Step, Attempt: line.Attempt, Epoch: line.Epoch}
		if json.Valid([]byte(line.Attrs)) {
			out.Attrs = json.RawMessage(line.Attrs)
		}
		l.system.printJSON(out)
		return
	}
	where := line.Step
	if line.Attempt > 1 {
		where += fmt.Sprintf(" (attempt %d)", line.Attempt)
	}
	parts := []string{l.system.paint(faint, line.At.String()), l.system.paint(colourOf(line.Level), fmt.Sprintf("%-5s", level))}
	if where != "" {
		parts = append(parts, "["+printable(where)+"]")
	}
	parts = append(parts, printable(line.Message))
	if attrs := flat(line.Attrs); attrs != "" {
		parts = append(parts, l.system.paint(faint, attrs))
	}
	fmt.Fprintln(l.system.Out, strings.Join(parts, " "))
}

func colourOf(level int) string {
	switch {
	case level >= int(slog.LevelError):
		return red
	case level >= int(slog.LevelWarn):
		return yellow
	default:
		return green
	}
}

// printable writes what would move a terminal's cursor, or is no text, as what it is: a line stays a line.
func printable(s string) string {
	if utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return s
	}
	quoted := strconv.Quote(s)
	return strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`)
}

// flat writes the members of an object as key=value, in their order.
func flat(object string) string {
	decoder := json.NewDecoder(strings.NewReader(object))
	if token, err := decoder.Token(); err != nil || token != json.Delim('{') {
		return printable(object)
	}
	var out []string
	for decoder.More() {
		key, err := decoder.Token()
		var value json.RawMessage
		if err == nil {
			err = decoder.Decode(&value)
		}
		if err != nil {
			return printable(object)
		}
		var text string
		if json.Unmarshal(value, &text) != nil || strings.ContainsAny(text, " =\"") || text == "" {
			text = string(bytes.TrimSpace(value))
		}
		out = append(out, printable(fmt.Sprint(key)+"="+text))
	}
	return strings.Join(out, " ")
}
