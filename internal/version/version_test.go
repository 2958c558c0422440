package version

import (
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestResolve(t *testing.T) {
	t.Parallel()
	revisions := []debug.BuildSetting{{Key: "vcs.revision", Value: "abc"}, {Key: "vcs.modified", Value: "true"}}
	own := func(version string) *debug.BuildInfo {
		return &debug.BuildInfo{Main: debug.Module{Path: modulePath, Version: version}, Settings: revisions}
	}
	tests := map[string]struct {
		version, commit string
		build           *debug.BuildInfo
		want            string
	}{
		"nothing known":      {want: "devel"},
		"linker":             {version: "v1.2.3", commit: "def", build: own("v0.0.1"), want: "v1.2.3 (def)"},
		"local build":        {build: own("(devel)"), want: "devel (abc+dirty)"},
		"go install":         {build: own("v1.2.3"), want: "v1.2.3 (abc+dirty)"},
		"inside another app": {build: &debug.BuildInfo{Main: debug.Module{Path: "example.com/app", Version: "v9.0.0"}, Settings: revisions, Deps: []*debug.Module{{Path: modulePath, Version: "v1.4.0"}}}, want: "v1.4.0"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, test.want, resolve(test.version, test.commit, test.build).String())
		})
	}
}

func TestGetIsNeverEmpty(t *testing.T) {
	t.Parallel()
	require.NotEmpty(t, Version())
	require.Equal(t, Info{Version: Version(), Commit: Commit()}, Get())
}
