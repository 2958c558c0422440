// Package version tells which build of Cairn is running.
//
// Release builds set the values through the linker (see the Makefile). Other builds read what the Go tool recorded, also
// when Cairn is a dependency of another program.
package version

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"runtime/debug"
	"sync"
)

// modulePath is this module's path in the build information of a program that uses it.
const modulePath = "github.com/cairn-workflow/cairn"

// unknown is the version of a build that carries none.
const unknown = "devel"

// version and commit are set by the linker: -X github.com/cairn-workflow/cairn/internal/version.version=v1.2.3
var version, commit string

var built = sync.OnceValue(func() Info {
	info, _ := debug.ReadBuildInfo()
	return resolve(version, commit, info)
})

// Info names a build.
type Info struct {
	// Version is the release, like v1.2.3, or devel for a build that has none.
	Version string
	// Commit is the revision of the source, empty if unknown. A suffix +dirty means that files had been changed.
	Commit string
}

// Get returns what is known of this build.
func Get() Info { return built() }

// Version is the release, like v1.2.3, or devel.
func Version() string { return built().Version }

// Commit is the revision of the source, or empty.
func Commit() string { return built().Commit }

// String is the version with the commit, where there is one.
func (i Info) String() string {
	if i.Commit == "" {
		return i.Version
	}
	return i.Version + " (" + i.Commit + ")"
}

// resolve prefers the linker's values and fills the gaps from the build information, which may be nil.
func resolve(version, commit string, build *debug.BuildInfo) Info {
	info := Info{Version: version, Commit: commit}
	if build != nil {
		info = fill(info, build)
	}
	if info.Version == "" {
		info.Version = unknown
	}
	return info
}

func fill(info Info, build *debug.BuildInfo) Info {
	if build.Main.Path != modulePath {
		for _, module := range build.Deps {
			if module.Path == modulePath && info.Version == "" {
				info.Version = module.Version
			}
		}
		return info // the revision is that of the other program
	}
	if info.Version == "" && build.Main.Version != "(devel)" {
		info.Version = build.Main.Version
	}
	if info.Commit == "" {
		info.Commit = revision(build.Settings)
	}
	return info
}

func revision(settings []debug.BuildSetting) string {
	var revision, suffix string
	for _, setting := range settings {
		switch setting.Key {
		case "vcs.revision":
			revision = setting.Value
		case "vcs.modified":
			if setting.Value == "true" {
				suffix = "+dirty"
			}
		}
	}
	if revision == "" {
		return ""
	}
	return revision + suffix
}

// buildDigits is how much of the executable's digest names a build.
const buildDigits = 16

// Build names this build of the program: two builds of different code have different names. It is a digest of the executable, read once.
var Build = sync.OnceValue(func() string {
	path, err := os.Executable()
	if err != nil {
		return Get().String()
	}
	file, err := os.Open(path)
	if err != nil {
		return Get().String()
	}
	defer func() { _ = file.Close() }()
	digest := sha256.New()
	if _, err := io.Copy(digest, file); err != nil {
		return Get().String()
	}
	return hex.EncodeToString(digest.Sum(nil))[:buildDigits]
})
