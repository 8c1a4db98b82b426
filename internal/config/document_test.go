package config

import (
	"fmt"
	"strings"
	"testing"

	"suanli.dev/internal/documented"
)

//go:generate go test suanli.dev/internal/config -run TestTheDocumentListsEverySetting -update

// settingsTable is the generated part of the document.
func settingsTable() string {
	var b strings.Builder
	for _, s := range Settings() {
		def := "`" + s.Default + "`"
		switch {
		case s.Key == "data_dir": // differs by user
			def = "`/var/lib/suanli` as root, else `~/.local/share/suanli`"
		case s.Default == "":
			def = "empty"
		}
		fmt.Fprintf(&b, "### %s\n\n%s\n\n`--%s` · `%s` · default: %s\n\n", s.Key, strings.NewReplacer("<", "\\<", "10^9", "10⁹").Replace(s.Doc), s.Flag(), s.Env(), def)
	}
	return b.String()
}

func TestTheDocumentListsEverySetting(t *testing.T) {
	documented.Part(t, "../../docs/configuration.md", documented.Begins, documented.Ends, "\n"+settingsTable())
}
