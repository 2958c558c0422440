// Package target reads the URLs of databases. It is apart from package open so that its fuzz test is built without SQLite, which takes minutes.
package target

import (
	"net/url"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/cairn-workflow/cairn/cairnerr"
)

// Memory is the path of a SQLite database in memory.
const Memory = ":memory:"

// forms are what a URL may look like; they end the message about one that does not.
const forms = "want sqlite:app.db, sqlite:///absolute/path.db, sqlite::memory:, a path that ends in .db, .sqlite or .sqlite3, " +
	"or postgres://user:password@host:port/database"

// Target is what a URL names: a path for SQLite or a URL for PostgreSQL.
type Target struct {
	Path string
	URL  string
}

// Parse reads a URL. What it complains about is never shown, since it may hold a password.
func Parse(text string) (Target, error) {
	scheme, rest, found := strings.Cut(text, ":")
	switch scheme = strings.ToLower(scheme); {
	case text == "":
		return Target{}, malformed("the URL of the database is empty")
	case found && scheme == "sqlite":
		return parseSQLite(rest)
	case found && scheme == "file":
		return parseFile(rest)
	case found && (scheme == "postgres" || scheme == "postgresql"):
		if !strings.HasPrefix(rest, "//") {
			return Target{}, malformed("a %s URL goes on with //", scheme)
		}
		return Target{URL: scheme + ":" + rest}, nil
	case plainPath(text):
		return Target{Path: text}, nil
	case strings.HasPrefix(rest, "//") && word(scheme):
		return Target{}, malformed("unknown kind of database %q", scheme)
	default:
		return Target{}, malformed("unknown kind of database")
	}
}

func malformed(format string, args ...any) error {
	return cairnerr.Errorf(cairnerr.CodeMalformed, format+": "+forms, args...)
}

// word reports whether text is a short word, as schemes are and passwords should not be.
func word(text string) bool {
	return len(text) <= 16 && strings.Trim(text, "abcdefghijklmnopqrstuvwxyz0123456789+-.") == ""
}

// plainPath reports whether text is the path of a SQLite file. One letter before a colon is a drive of Windows.
func plainPath(text string) bool {
	scheme, _, found := strings.Cut(text, ":")
	return (!found || len(scheme) == 1) && slices.Contains([]string{".db", ".sqlite", ".sqlite3"}, strings.ToLower(filepath.Ext(text)))
}

func parseSQLite(rest string) (Target, error) {
	switch {
	case rest == Memory:
		return Target{Path: Memory}, nil
	case strings.Contains(rest, "?"):
		return Target{}, malformed("a sqlite URL takes no settings after a question mark")
	case strings.HasPrefix(rest, "//") && !strings.HasPrefix(rest, "///"):
		return Target{}, malformed("a sqlite URL has no host: leave the two slashes out, or write three for an absolute path")
	}
	return file(strings.TrimPrefix(rest, "//"))
}

func parseFile(rest string) (Target, error) {
	u, err := url.Parse("file:" + rest)
	switch {
	case err != nil:
		return Target{}, malformed("bad file URL")
	case u.RawQuery != "" || u.Fragment != "":
		return Target{}, malformed("a file URL takes no settings")
	case u.Host != "" && u.Host != "localhost":
		return Target{}, malformed("a file URL has no host: write three slashes for an absolute path")
	case u.Opaque != "": // a relative path
		path, err := url.PathUnescape(u.Opaque)
		if err != nil {
			return Target{}, malformed("bad file URL")
		}
		return file(path)
	default:
		return file(u.Path)
	}
}

func file(path string) (Target, error) {
	if path == "" || strings.HasSuffix(path, "/") {
		return Target{}, malformed("the URL names no file")
	}
	if path == Memory { // a file of that name cannot be had
		return Target{}, malformed("bad path of a SQLite file")
	}
	if runtime.GOOS == "windows" && len(path) > 2 && path[0] == '/' && path[2] == ':' {
		path = path[1:] // sqlite:///C:/app.db
	}
	return Target{Path: path}, nil
}

// Location names the database for people, without credentials and settings.
func (t Target) Location() string {
	if t.Path != "" {
		return t.Path
	}
	u, err := url.Parse(t.URL)
	// An @ that was not escaped makes a part of the password look like a host or a path.
	if err != nil || strings.Contains(u.Host+u.Path, "@") {
		return "a PostgreSQL database"
	}
	return u.Host + u.Path
}
