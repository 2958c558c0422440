package metrics

import "sync"

// MaxValues is how many values a label may have: names of steps, codes of errors. Programs have few; one that makes names out of data must not fill the
// memory of who collects its metrics.
const MaxValues = 1000

// Other stands for the values of a label beyond MaxValues.
const Other = "other"

// Bound keeps the values of labels bounded. Its zero value is ready.
type Bound struct {
	mu   sync.RWMutex
	seen map[string]map[string]struct{} // values by label
}

// Value returns the value, or [Other] if the label has too many.
func (b *Bound) Value(label, value string) string {
	b.mu.RLock()
	_, known := b.seen[label][value]
	full := len(b.seen[label]) >= MaxValues
	b.mu.RUnlock()
	switch {
	case known:
		return value
	case full:
		return Other
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.seen == nil {
		b.seen = map[string]map[string]struct{}{}
	}
	if b.seen[label] == nil {
		b.seen[label] = map[string]struct{}{}
	}
	if len(b.seen[label]) >= MaxValues {
		return Other
	}
	b.seen[label][value] = struct{}{}
	return value
}
