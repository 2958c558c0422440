package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"time"

	"github.com/cairn-workflow/cairn/internal/pgcluster"
)

// side is a system in a process of its own, with a database of its own.
type side struct {
	system string
	steps  int
	runs   int // in each turn; the warm-up finds it

	dir      string
	cluster  *pgcluster.Cluster
	cmd      *exec.Cmd
	commands io.WriteCloser
	answers  chan answer
}

func startSide(ctx context.Context, system string, c cell, o options) (*side, error) {
	s := &side{system: system, steps: c.steps}
	if err := s.start(ctx, c.store, o.sync); err != nil {
		return nil, errors.Join(fmt.Errorf("start %s: %w", system, err), s.close())
	}
	return s, nil
}

func (s *side) start(ctx context.Context, store, sync string) (err error) {
	if s.dir, err = os.MkdirTemp("", "cairn-peers-"); err != nil {
		return err
	}
	args := []string{serveCommand, "-system", s.system, "-store", store, "-dir", s.dir, "-sync", sync}
	if store == "postgres" {
		if s.cluster, err = pgcluster.New(ctx, pgcluster.Options{Durable: true}); err != nil {
			return fmt.Errorf("PostgreSQL (make setup installs it): %w", err)
		}
		args = append(args, "-url", s.cluster.URL())
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	s.cmd = exec.Command(self, args...) //nolint:noctx // it ends when its standard input does, in good order
	s.cmd.Stderr = os.Stderr
	if s.commands, err = s.cmd.StdinPipe(); err != nil {
		return err
	}
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := s.cmd.Start(); err != nil {
		return err
	}
	s.answers = make(chan answer)
	go s.read(out)
	_, err = s.answer(ctx)
	return err
}

// read passes the child's answers on until it ends.
func (s *side) read(out io.Reader) {
	defer close(s.answers)
	for lines := bufio.NewScanner(out); lines.Scan(); {
		var a answer
		if err := json.Unmarshal(lines.Bytes(), &a); err != nil {
			a.Error = fmt.Sprintf("bad answer %q: %v", lines.Text(), err)
		}
		s.answers <- a
	}
}

func (s *side) answer(ctx context.Context) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, patience+10*time.Second)
	defer cancel()
	select {
	case a, ok := <-s.answers:
		if !ok {
			return a, errors.New("the process ended")
		}
		if a.Error != "" {
			return a, errors.New(a.Error)
		}
		return a, nil
	case <-ctx.Done():
		return answer{}, fmt.Errorf("no answer: %w", ctx.Err())
	}
}

// work has the system do so many runs.
func (s *side) work(ctx context.Context, runs int) (turn, error) {
	before := s.serverCPU()
	if err := json.NewEncoder(s.commands).Encode(command{Runs: runs, Steps: s.steps}); err != nil {
		return turn{}, err
	}
	a, err := s.answer(ctx)
	if err != nil {
		return turn{}, err
	}
	return turn{runs: runs, steps: runs * s.steps, seconds: a.Seconds, cpu: a.CPU + s.serverCPU() - before}, nil
}

func (s *side) serverCPU() float64 {
	if s.cluster == nil {
		return 0
	}
	return childCPU(s.cluster.PID())
}

// warmUp works until it knows how many runs fill a turn, or does the wanted number once. Cairn always gets the backlog of its own benchmark.
func (s *side) warmUp(ctx context.Context, length time.Duration, wanted int) error {
	most := mostSteps / s.steps
	s.runs = submitters
	if s.system == "cairn" {
		s.runs = most
	}
	if wanted > 0 {
		s.runs = wanted
	}
	for range 5 {
		t, err := s.work(ctx, s.runs)
		if err != nil || wanted > 0 || s.runs == most || t.seconds > length.Seconds()*2/3 {
			return err
		}
		fit := math.Ceil(t.rate()/float64(s.steps)*length.Seconds()/submitters) * submitters
		s.runs = min(max(s.runs, int(fit)), most)
	}
	return nil
}

// close ends the process by closing its input, and removes all that it left.
func (s *side) close() error {
	var err error
	if s.commands != nil {
		err = s.commands.Close()
	}
	if s.answers != nil {
		slow := time.AfterFunc(20*time.Second, func() { _ = s.cmd.Process.Kill() })
		for range s.answers { // what is still said does not matter
		}
		err = errors.Join(err, s.cmd.Wait())
		slow.Stop()
	}
	if s.cluster != nil {
		err = errors.Join(err, s.cluster.Stop())
	}
	if s.dir != "" {
		err = errors.Join(err, os.RemoveAll(s.dir))
	}
	return err
}
