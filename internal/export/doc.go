// Package export reads and writes a run as a file of JSON lines: a header, one line for each event of its journal, and a last line with their number.
//
// The file has all that is needed to fold the journal again, byte for byte; docs/export.md is its reference. Within a major version fields are only
// added, and a reader ignores those that it does not know. A file that cannot be read gives an error with the number of the line, never a panic: such
// files come from other machines, and may have been edited.
package export
