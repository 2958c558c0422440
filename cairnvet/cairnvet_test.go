package cairnvet_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/analysistest"

	"github.com/cairn-workflow/cairn/cairnvet"
)

// root is the folder of the module: the packages below testdata use the real package cairn.
const root = ".."

// together runs all rules as one, so that each package of testdata is also free of findings of the other rules.
func together() *analysis.Analyzer {
	rules := cairnvet.Analyzers()
	return &analysis.Analyzer{
		Name:     "together",
		Doc:      "run all rules",
		Requires: rules[0].Requires,
		Run: func(pass *analysis.Pass) (any, error) {
			for _, rule := range rules {
				if _, err := rule.Run(pass); err != nil {
					return nil, err
				}
			}
			return nil, nil
		},
	}
}

// TestRules compares the findings with the comments in testdata.
func TestRules(t *testing.T) {
	t.Parallel()
	folders, err := os.ReadDir(filepath.Join("testdata", "src"))
	require.NoError(t, err)
	require.Len(t, folders, len(cairnvet.Analyzers())+1, "a folder for each rule, and one for what is workflow code")
	var patterns []string
	for _, folder := range folders {
		patterns = append(patterns, "./cairnvet/testdata/src/"+folder.Name())
	}
	module, err := filepath.Abs(root)
	require.NoError(t, err)
	require.Len(t, analysistest.Run(t, module, together(), patterns...), len(patterns))
}
