package postgres

import (
	"context"
	"errors"
	"maps"
	"sync"

	"github.com/jackc/pgx/v5"
)

// names remembers the numbers of namespaces and workflows. They never change, so what was read once stays true.
type names struct {
	mu         sync.RWMutex
	namespaces map[string]int32
	workflows  map[workflowName]int32
	workflowOf map[int32]string
}

type workflowName struct {
	ns   int32
	name string
}

func (n *names) namespace(name string) (int32, bool) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	no, ok := n.namespaces[name]
	return no, ok
}

func (n *names) workflow(ns int32, name string) (int32, bool) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	no, ok := n.workflows[workflowName{ns, name}]
	return no, ok
}

func (n *names) workflowName(no int32) (string, bool) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	name, ok := n.workflowOf[no]
	return name, ok
}

// learn takes over names that are committed.
func (n *names) learn(namespaces map[string]int32, workflows map[workflowName]int32) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.namespaces == nil {
		n.namespaces, n.workflows, n.workflowOf = map[string]int32{}, map[workflowName]int32{}, map[int32]string{}
	}
	maps.Copy(n.namespaces, namespaces)
	for w, no := range workflows {
		n.workflows[w] = no
		n.workflowOf[no] = w.name
	}
}

const (
	selectNamespace    = `select no from namespaces where name = $1`
	insertNamespace    = `insert into namespaces (name) values ($1) on conflict do nothing`
	selectWorkflow     = `select no from workflows where ns = $1 and name = $2`
	insertWorkflow     = `insert into workflows (ns, name) values ($1, $2) on conflict do nothing`
	selectWorkflowName = `select ns, name from workflows where no = $1`
)

// Namespaces implements [store.Reader].
func (s *Store) Namespaces(ctx context.Context) ([]string, error) {
	var all []string
	err := s.each(ctx, func(rows pgx.Rows) error {
		var name string
		err := rows.Scan(&name)
		all = append(all, name)
		return err
	}, `select name from namespaces order by name`)
	return all, err
}

// namespaceNo finds the number of a namespace; it has none before its first run.
func (s *Store) namespaceNo(ctx context.Context, name string) (int32, bool, error) {
	if no, ok := s.names.namespace(name); ok {
		return no, true, nil
	}
	no, ok, err := s.number(ctx, selectNamespace, name)
	if ok {
		s.names.learn(map[string]int32{name: no}, nil)
	}
	return no, ok, err
}

// workflowNo finds the number of a workflow.
func (s *Store) workflowNo(ctx context.Context, ns int32, name string) (int32, bool, error) {
	if no, ok := s.names.workflow(ns, name); ok {
		return no, true, nil
	}
	no, ok, err := s.number(ctx, selectWorkflow, ns, name)
	if ok {
		s.names.learn(nil, map[workflowName]int32{{ns, name}: no})
	}
	return no, ok, err
}

func (s *Store) number(ctx context.Context, query string, args ...any) (no int32, ok bool, err error) {
	err = s.pool.QueryRow(ctx, query, args...).Scan(&no)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, false, nil
	}
	return no, err == nil, classify("read a name", err)
}

// makeNamespace finds the number of a namespace, and gives it one if it has none. That is committed at once, on its own: a number
// that is never used does no harm, and a batch that fails leaves nothing behind that was remembered.
func (s *Store) makeNamespace(ctx context.Context, name string) (int32, error) {
	no, ok, err := s.namespaceNo(ctx, name)
	if err != nil || ok {
		return no, err
	}
	if _, err := s.pool.Exec(ctx, insertNamespace, name); err != nil {
		return 0, classify("store a name", err)
	}
	no, _, err = s.namespaceNo(ctx, name)
	return no, err
}

// makeWorkflow finds the number of a workflow, and gives it one if it has none.
func (s *Store) makeWorkflow(ctx context.Context, ns int32, name string) (int32, error) {
	no, ok, err := s.workflowNo(ctx, ns, name)
	if err != nil || ok {
		return no, err
	}
	if _, err := s.pool.Exec(ctx, insertWorkflow, ns, name); err != nil {
		return 0, classify("store a name", err)
	}
	no, _, err = s.workflowNo(ctx, ns, name)
	return no, err
}

// workflowName finds the name that belongs to a number.
func (s *Store) workflowName(ctx context.Context, no int32) (string, error) {
	if name, ok := s.names.workflowName(no); ok {
		return name, nil
	}
	var ns int32
	var name string
	if err := s.pool.QueryRow(ctx, selectWorkflowName, no).Scan(&ns, &name); err != nil {
		return "", classify("read a name", err)
	}
	s.names.learn(nil, map[workflowName]int32{{ns, name}: no})
	return name, nil
}
