package flow_test

import (
	"testing"

	"github.com/cairn-workflow/cairn/internal/pgcluster/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }
