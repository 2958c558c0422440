package cairnvet

import "go/ast"

// outside are functions that read or change the world outside the program. Only such are here as can mean nothing else: what writes to
// a stream that was given to it, such as a logger, is not.
var outside = symbols{
	"database/sql": "Conn.BeginTx Conn.ExecContext Conn.QueryContext Conn.QueryRowContext " +
		"DB.Begin DB.BeginTx DB.Exec DB.ExecContext DB.Query DB.QueryContext DB.QueryRow DB.QueryRowContext " +
		"Stmt.Exec Stmt.ExecContext Stmt.Query Stmt.QueryContext Stmt.QueryRow Stmt.QueryRowContext " +
		"Tx.Exec Tx.ExecContext Tx.Query Tx.QueryContext Tx.QueryRow Tx.QueryRowContext",
	"net":      "Dial DialTimeout Listen LookupAddr LookupHost LookupIP Dialer.Dial Dialer.DialContext",
	"net/http": "Client.Do Client.Get Client.Head Client.Post Client.PostForm Get Head Post PostForm",
	"os": "Create CreateTemp Environ Getenv Getpid Hostname LookupEnv Lstat Mkdir MkdirAll MkdirTemp Open OpenFile ReadDir ReadFile " +
		"Remove RemoveAll Rename Stat WriteFile",
	"os/exec":       "Cmd.CombinedOutput Cmd.Output Cmd.Run Cmd.Start LookPath",
	"path/filepath": "EvalSymlinks Glob Walk WalkDir",
}

// checkImpure reports what can be different, or is done once more, when the workflow is executed again.
func checkImpure(p *rulePass) {
	p.used(func(one symbol, expression ast.Expr) {
		if outside.has(one) {
			p.found(expression, "%s in a workflow is done again, and can be different, when it is executed again: do it in a step, for example with cairn.Do", one)
		}
	})
}
