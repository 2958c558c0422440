package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/payload"
	"github.com/cairn-workflow/cairn/internal/store"
	"github.com/cairn-workflow/cairn/internal/stream"
)

func newStream(s *System) *cobra.Command {
	c := &streamCommand{system: s}
	command := &cobra.Command{
		Use:   "stream RUN [NAME]",
		Short: "Print what a run writes to a stream, or list its streams",
		Long: text(`
			Prints the chunks of a stream, one per line: text as it is, other values as JSON. Without NAME, lists the streams of
			the run. It only reads, and needs no program that executes the run.

			A step that is tried again writes its chunks again; a note on standard error says so. With --settled, chunks of attempts
			that did not complete are left out; chunks behind an attempt that is under way are held back until it has ended.

			With --follow it goes on until the stream is closed or the run has ended.`) +
			"\n\n" + exitCodes,
		Example: text(`
			  cairn stream wrun_01JD0000000000000000000000
			  cairn stream wrun_01JD0000000000000000000000 tokens --follow
			  cairn stream wrun_01JD0000000000000000000000 tokens --tail 20 --json`),
		Args: cobra.RangeArgs(1, 2),
		RunE: c.run,
	}
	storeFlag(command, &c.store)
	namespaceFlag(command, &c.namespace)
	flags := command.Flags()
	flags.Int64Var(&c.from, "from", 0, "begin at this `index`, the first is 0")
	flags.Int64Var(&c.tail, "tail", 0, "begin `N` chunks before the end")
	flags.BoolVarP(&c.follow, "follow", "f", false, "go on with what comes")
	flags.BoolVar(&c.settled, "settled", false, "leave out what steps wrote in attempts that did not complete")
	flags.BoolVar(&c.asJSON, "json", false, "print one JSON object a line, with index, writer, attempt and time")
	flags.BoolVar(&c.raw, "raw", false, "print values without line ends")
	return command
}

// streamCommand prints a stream.
type streamCommand struct {
	system           *System
	store, namespace string
	from, tail       int64
	follow, settled  bool
	asJSON, raw      bool
}

func (c *streamCommand) run(command *cobra.Command, args []string) error {
	run, err := parseRun(args[0])
	if err != nil {
		return err
	}
	set := command.Flags().Changed
	switch {
	case c.from < 0 || c.tail < 0:
		return &usageError{errors.New("an index or a number of chunks cannot be below 0")}
	case set("from") && set("tail"):
		return &usageError{errors.New("use --from or --tail, not both")}
	case c.asJSON && c.raw:
		return &usageError{errors.New("use --json or --raw, not both")}
	}
	db, err := c.system.openToRead(command.Context(), c.store)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	if len(args) == 1 {
		return c.list(command.Context(), db, run)
	}
	request := stream.Request{
		Key: store.StreamKey{Namespace: c.namespace, Run: run, Name: args[1]}, From: c.from, Settled: c.settled, Stored: !c.follow,
	}
	if command.Flags().Changed("tail") {
		request.From, request.FromEnd = c.tail, true
	}
	return c.print(command.Context(), db, request)
}

// streamPoll is how often a stream is looked at that nobody hints at.
const streamPoll = 250 * time.Millisecond

func (c *streamCommand) print(ctx context.Context, db store.Store, r stream.Request) error {
	for chunk, err := range stream.NewHub(db, streamPoll, nil, nil).Read(ctx, r) {
		if err != nil {
			if c.follow && ctx.Err() != nil {
				return nil // that is how one ends it
			}
			return err
		}
		if err := c.chunk(&chunk); err != nil {
			return err
		}
	}
	return nil
}

// streamLine is a chunk as programs read it.
type streamLine struct {
	Index    int64           `json:"index"`
	Writer   string          `json:"writer"`
	Attempt  int             `json:"attempt,omitempty"`
	Boundary bool            `json:"boundary,omitempty"`
	Time     string          `json:"time"`
	Value    json.RawMessage `json:"value"`
}

func (c *streamCommand) chunk(chunk *store.Chunk) error {
	value, err := payload.ToJSON(chunk.Data)
	if err != nil {
		return fmt.Errorf("chunk %d: %w", chunk.Index, err)
	}
	writer := strings.TrimSuffix(chunk.Key, "/")
	if c.asJSON {
		return json.NewEncoder(c.system.Out).Encode(streamLine{
			Index: chunk.Index, Writer: writer, Attempt: chunk.Attempt, Boundary: chunk.Boundary, Time: chunk.At.String(), Value: value,
		})
	}
	if chunk.Boundary {
		fmt.Fprintf(c.system.Err, "cairn: %s begins again, attempt %d\n", writer, chunk.Attempt)
	}
	end := "\n"
	if c.raw {
		end = ""
	}
	_, err = fmt.Fprint(c.system.Out, chunkText(chunk, value), end)
	return err
}

// chunkText returns a chunk as people read it: a text or bytes as they are, anything else as JSON.
func chunkText(chunk *store.Chunk, asJSON json.RawMessage) string {
	var value any
	if err := payload.Decode(chunk.Data, &value); err == nil {
		switch v := value.(type) {
		case string:
			return v
		case []byte:
			return string(v)
		}
	}
	return string(asJSON)
}

// list prints the names of the streams, and how far they are.
func (c *streamCommand) list(ctx context.Context, db store.Store, run journal.ID) error {
	if _, err := db.Run(ctx, c.namespace, run, store.ResolveNone); err != nil {
		return err
	}
	infos, err := db.Streams(ctx, c.namespace, run)
	if err != nil {
		return err
	}
	for i := range infos {
		if c.asJSON {
			line := struct {
				Name   string `json:"name"`
				Chunks int64  `json:"chunks"`
				Closed bool   `json:"closed"`
			}{infos[i].Name, infos[i].Head.Next, infos[i].Head.Closed}
			if err := json.NewEncoder(c.system.Out).Encode(line); err != nil {
				return err
			}
			continue
		}
		closed := ""
		if infos[i].Head.Closed {
			closed = ", closed"
		}
		fmt.Fprintf(c.system.Out, "%s  %s%s\n", infos[i].Name, amount(infos[i].Head.Next, "chunk"), closed)
	}
	return nil
}
