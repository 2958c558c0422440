package cairnvet

import (
	"go/ast"
	"slices"
	"strings"
)

// identifiers are the functions that make an id which nobody else has.
var identifiers = symbols{
	"github.com/gofrs/uuid":      "NewV1 NewV1AtTime NewV4 NewV6 NewV6AtTime NewV7 NewV7AtTime",
	"github.com/google/uuid":     "New NewDCEGroup NewDCEPerson NewDCESecurity NewRandom NewString NewUUID NewV6 NewV7 NewV7FromReader",
	"github.com/oklog/ulid":      "DefaultEntropy Make MustNewDefault Now",
	"github.com/rs/xid":          "New",
	"github.com/satori/go.uuid":  "NewV1 NewV2 NewV4",
	"github.com/segmentio/ksuid": "New NewRandom",
}

// secrets are the functions and variables that nobody can guess.
var secrets = symbols{"crypto/rand": "Int Prime Read Reader Text"}

// seeded are the functions of math/rand that do not use the source which nobody seeds.
var seeded = []string{"New", "NewChaCha8", "NewPCG", "NewSource", "NewZipf"}

// checkRandom reports randomness that is not the same when the workflow is executed again.
func checkRandom(p *rulePass) {
	p.used(func(one symbol, expression ast.Expr) {
		instead := ""
		switch {
		case one.path == "math/rand" && !strings.Contains(one.name, ".") && !slices.Contains(seeded, one.name):
			instead = "cairn.Rand(ctx)"
		case secrets.has(one):
			instead = "cairn.Rand(ctx) or cairn.NewID(ctx), and a step for secrets"
		case identifiers.has(one):
			instead = "cairn.NewID(ctx), or a step"
		default:
			return
		}
		p.found(expression, "%s in a workflow is different when it is executed again: use %s", one, instead)
	})
}
