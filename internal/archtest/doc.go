// Package archtest holds the tests that keep the shape of the source: which package may import which, what the pure core
// may not do, and the habits that every file follows.
//
// The rules read the source, they do not compile it. A rule about a package that does not exist yet passes, and starts to
// bite when the package appears. Each rule also runs on a small tree that breaks it, so that a rule which has gone blind
// fails.
package archtest
