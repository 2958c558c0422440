// Package cairnvet finds code in workflow functions that does something else when it is executed again.
//
// A workflow function is one that has a parameter of type cairn.Context. A run that was interrupted executes it from the beginning, so it must
// do the same each time: see the rules in the documentation of package cairn. Each rule is an analyzer of its own, and can be switched
// off by its name.
//
// Command cmd/cairnvet runs all rules. In code, a finding is hidden by a comment on its line or on the line above:
//
//	//cairnvet:ignore time the log is read by people
//	log.Println(time.Now())
//
// What each rule finds, and what none of them finds, is in docs/cairnvet.md.
package cairnvet
