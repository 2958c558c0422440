package torture

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// What the line of a diary says.
const (
	saysBegin   = "begin"   // the body of a step begins
	saysEnd     = "end"     // it has done its effect
	saysStall   = "stall"   // the process stood still
	saysStats   = "stats"   // numbers of the engine
	saysAsk     = "ask"     // a client is about to ask for something
	saysTold    = "told"    // it was acknowledged
	saysRefused = "refused" // it was refused
	saysEnded   = "ended"   // a run has ended, as the client was told
	saysWrong   = "wrong"   // something that must not be
)

// What a client asks for.
const (
	askStart     = "start"
	askSend      = "send"
	askAnswer    = "answer"
	askPause     = meddlePause
	askResume    = "resume"
	askCancel    = meddleCancel
	askTerminate = meddleTerminate
	askNote      = meddleNote
	askMark      = "mark" // an attribute
	askFork      = "fork"
)

// line is one line of a diary. Only what belongs to what it says is set.
type line struct {
	At   int64  // microseconds since 1970
	Says string `json:",omitempty"`

	Run     string `json:",omitempty"`
	Key     string `json:",omitempty"` // of a step, or of who sends
	Idem    string `json:",omitempty"` // the idempotency key of a step
	Attempt int    `json:",omitempty"`

	Ask   string `json:",omitempty"`
	Order string `json:",omitempty"`
	Token string `json:",omitempty"`
	Value int64  `json:",omitempty"`
	Code  string `json:",omitempty"` // of an error
	Text  string `json:",omitempty"`

	From       int64 `json:",omitempty"` // of a stall, until At
	PeersDied  int64 `json:",omitempty"`
	LeasesLost int64 `json:",omitempty"`
}

// diary is a file to which one process appends. Each line is one write, so a kill loses none that was written; a synced diary also survives
// a power cut.
type diary struct {
	mu     sync.Mutex
	file   *os.File
	synced bool
}

func openDiary(path string, synced bool) (*diary, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("torture: diary: %w", err)
	}
	return &diary{file: file, synced: synced}, nil
}

// write appends a line. A diary that cannot be written makes the whole run worthless, so that ends the process.
func (d *diary) write(l line) {
	l.At = time.Now().UnixMicro()
	text, err := json.Marshal(l)
	if err != nil {
		panic(err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, err = d.file.Write(append(text, '\n')); err == nil && d.synced {
		err = d.file.Sync()
	}
	if err != nil {
		panic(fmt.Errorf("torture: diary: %w", err))
	}
}

// readDiary returns the lines of a diary. What a kill has cut off at its end is left out.
func readDiary(path string) ([]line, error) {
	file, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("torture: diary: %w", err)
	}
	defer file.Close() //nolint:errcheck // only read
	var lines []line
	scanner := bufio.NewScanner(file)
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		var l line
		if json.Unmarshal(scanner.Bytes(), &l) == nil {
			lines = append(lines, l)
		}
	}
	return lines, scanner.Err()
}

// The names of diaries tell whose they are.
const (
	workerDiaries = "worker-"
	clientDiaries = "client-"
	diarySuffix   = ".jsonl"
)

// readDiaries returns the diaries in a directory whose names begin with a prefix, by what follows it.
func readDiaries(dir, prefix string) (map[string][]line, error) {
	paths, err := filepath.Glob(filepath.Join(dir, prefix+"*"+diarySuffix))
	if err != nil {
		return nil, err
	}
	diaries := make(map[string][]line, len(paths))
	for _, path := range paths {
		lines, err := readDiary(path)
		if err != nil {
			return nil, err
		}
		diaries[strings.TrimSuffix(filepath.Base(path), diarySuffix)] = lines
	}
	return diaries, nil
}
