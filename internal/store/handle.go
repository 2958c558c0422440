package store

// Opened is a database as its users hold it: they can close it, and give it to an engine. Only a [Handle] is one.
type Opened interface {
	// Close ends all use of the database. Stop the engines that work on it first.
	Close() error
	opened() Store
}

// Handle hides a store from users: it shows them nothing but Close.
type Handle struct{ inner Store }

// NewHandle returns the handle of an opened store.
func NewHandle(s Store) *Handle { return &Handle{s} }

// Of returns the store behind a handle, nil if there is none.
func Of(o Opened) Store {
	if o == nil {
		return nil
	}
	return o.opened()
}

// Close ends all use of the database.
func (h *Handle) Close() error { return h.inner.Close() }

func (h *Handle) opened() Store {
	if h == nil {
		return nil
	}
	return h.inner
}
