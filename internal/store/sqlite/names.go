package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"maps"
	"sync"
)

// names remembers the numbers of namespaces and workflows. They never change, so what was read once stays true.
type names struct {
	mu         sync.RWMutex
	namespaces map[string]int64
	workflows  map[workflowName]int64
}

type workflowName struct {
	ns   int64
	name string
}

func (n *names) namespace(name string) (int64, bool) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	no, ok := n.namespaces[name]
	return no, ok
}

func (n *names) workflow(ns int64, name string) (int64, bool) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	no, ok := n.workflows[workflowName{ns, name}]
	return no, ok
}

// learn takes over names that are committed.
func (n *names) learn(namespaces map[string]int64, workflows map[workflowName]int64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.namespaces == nil {
		n.namespaces, n.workflows = map[string]int64{}, map[workflowName]int64{}
	}
	maps.Copy(n.namespaces, namespaces)
	maps.Copy(n.workflows, workflows)
}

// Namespaces implements [store.Reader].
func (s *Store) Namespaces(ctx context.Context) ([]string, error) {
	var all []string
	err := s.each(ctx, s.db(), 1, func(row []driver.Value) error { all = append(all, asText(row[0])); return nil },
		`select name from cairn_namespaces order by name`)
	return all, err
}

// namespaceNo finds the number of a namespace for a reader; it has none before its first run.
func (s *Store) namespaceNo(ctx context.Context, name string) (int64, bool, error) {
	if no, ok := s.names.namespace(name); ok {
		return no, true, nil
	}
	var no int64
	err := s.one(ctx, []any{&no}, `select no from cairn_namespaces where name = ?`, name)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, classify("read the namespace", err)
	}
	s.names.learn(map[string]int64{name: no}, nil)
	return no, true, nil
}

// workflowNo finds the number of a workflow for a reader.
func (s *Store) workflowNo(ctx context.Context, ns int64, name string) (int64, bool, error) {
	if no, ok := s.names.workflow(ns, name); ok {
		return no, true, nil
	}
	var no int64
	err := s.one(ctx, []any{&no}, `select no from cairn_workflows where ns = ? and name = ?`, ns, name)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, classify("read the workflow", err)
	}
	s.names.learn(nil, map[workflowName]int64{{ns, name}: no})
	return no, true, nil
}
