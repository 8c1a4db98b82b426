package main

import (
	"archive/tar"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// all returns every command there is.
func all(root *cobra.Command) []*cobra.Command {
	var list []*cobra.Command
	walk(root, func(c *cobra.Command) { list = append(list, c) })
	return list
}

// noJSON are the commands that have no result to print, and why.
var noJSON = map[string]string{
	"help":                  "explains",
	"completion bash":       "prints a script",
	"completion zsh":        "prints a script",
	"completion fish":       "prints a script",
	"completion powershell": "prints a script",
	"ssh":                   "is a terminal",
	"cluster check":         "needs nodes that measure; the tests in e2e read what it prints",
	"bill usage":            "needs a batch of events, which the document has no schema of; the server's tests read it by the same client",
	"up":                    "runs until it is stopped, and logs",
	"server":                "runs until it is stopped, and logs",
	"agent run":             "runs until it is stopped, and logs",
	"gateway run":           "runs until it is stopped, and logs",
	"gateway join":          "needs a real cloud; TestGatewayElsewhereJoinsServesAndIsTurnedAway reads what it prints",
	"agent join":            "needs root; what it prints is gateway join's line",
}

// rootfs is an archive with these empty files.
func rootfs(t *testing.T, files ...string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "rootfs.tar")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	w := tar.NewWriter(f)
	for _, file := range append([]string{"etc/"}, files...) {
		if err := w.WriteHeader(&tar.Header{Name: file, Mode: 0o755}); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), f.Close()); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestEveryCommandPrintsJSONWhenAsked(t *testing.T) {
	t.Parallel()
	p := newPretence(t)
	data, restored, backup := t.TempDir(), filepath.Join(t.TempDir(), "new"), filepath.Join(t.TempDir(), "backup.tar")
	emptyStore(t, data)
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("ssh-ed25519 AAAA\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	arguments := map[string][]string{
		"search": {"gpu_count = 1"}, "explain": {"--gpus", "1"}, "quote": {"of-1"}, "rent": {"of-1", "--env", "A=b"}, "ps": {"--all"}, "show": {"mine"}, "stop": {"mine"}, "start": {"mine"},
		"restart": {"mine"}, "set": {"mine", "--name", "new"}, "history": {"mine"}, "queue ls": {}, "queue show": {"train"}, "queue cancel": {"train"}, "bid ls": {}, "bid change": {"cheap", "--bid", "1"}, "bid cancel": {"cheap"}, "market": {"--history", "--gpu-model", "x"}, "templates": {}, "models": {}, "regions": {},
		"exec": {}, "logs": {"mine"}, "cp": {file, "mine:/copy"}, "port-forward": {"mine", "0:80"}, "top": {}, "url": {"mine"},
		"gateway token": {"--name", "shanghai"}, "gateway list": {}, "gateway remove": {"gw-1"}, "host token": {}, "host list": {}, "host show": {"ho-1"}, "host price": {"ho-1", "--storage", "0.1"}, "host maintenance": {"ho-1", "--until", "8h"},
		"host remove": {"ho-1"}, "host list-gpu": {"ho-1"}, "host unlist": {"ho-1"}, "host abandon": {"ho-1"}, "host drain": {"ho-1"}, "host undrain": {"ho-1"},
		"login": {p.url, "--email", "a@example.com", "--password-file", "-"}, "logout": {}, "signup": {p.url, "--email", "a@example.com", "--code", "123456", "--password-file", "-"}, "account invite": {"a@example.com"}, "account invitations": {}, "account uninvite": {"a@example.com"}, "account show": {}, "account list": {},
		"account create": {"name", "--email", "b@example.com", "--password-file", "-"}, "key create": {"name"}, "key list": {}, "key delete": {"ak-1"},
		"invoice ls": {}, "invoice credits": {"INV-000001"}, "invoice credit": {"INV-000001", "--line", "0=1.00"}, "refund": {"ac-1", "5"}, "invoice show": {"INV-000001"}, "invoice download": {"INV-000001", "--output", filepath.Join(t.TempDir(), "a.pdf")}, "invoice statements": {}, "invoice customer": {"ac-1", "--name", "n"},
		"key ssh-add": {file}, "earnings": {"--by", "day"}, "host statement": {"--month", "2026-03"}, "status": {}, "sla list": {}, "sla show": {"mine"}, "sla confirm": {"mine", "2026-03-01T12:00:00Z"}, "payout balance": {}, "payout list": {}, "payout create": {"2026-03"}, "payout mark": {"po-1", "approve"}, "pay create": {"5"}, "pay list": {}, "pay show": {"pm-1"}, "pay refund": {"pm-1"}, "pay enter": {"ac-1", "5"}, "pay confirm": {"pm-1", "5"}, "pay reverse": {"pm-1"}, "pay resolve": {"pm-1"}, "balance": {}, "bill": {"mine"}, "bill charges": {}, "bill explain": {"ch-1"}, "bill export": {"--period", "2026-03", "--output", filepath.Join(t.TempDir(), "focus.csv")}, "deposit": {"ac-1", "5"}, "ledger verify": {}, "config check": {}, "doctor": {"--data-dir", data},
		"backup": {backup, "--data-dir", data}, "migrate": {"--data-dir", data, "--to", "sqlite:" + filepath.Join(t.TempDir(), "new.db")}, "restore": {backup, "--data-dir", restored}, "image push": {"digits:1", rootfs(t, "init")}, "openapi": {},
		"account grant": {"ac-1", "5", "--trial"}, "account grants": {}, "account credit show": {}, "account credit set": {"ac-1", "5", "--net-days", "30"}, "account credit revoke": {"ac-1"}, "invoice dues": {}, "invoice write-off": {"INV-000001"}, "coupon create": {"THANKS 5.00USD"}, "coupon list": {}, "coupon redeem": {"THANKS"}, "trial show": {}, "trial start": {}, "trial verify": {"123456"}, "trial confirm": {"ac-1"}, "monthly show": {"mine"}, "monthly set": {"mine", "--renew"}, "monthly reprice": {"mine"},
		"reserve quote": {"of-1"}, "reserve create": {"of-1", "--agree", "5"}, "reserve ls": {}, "reserve show": {"team"}, "reserve set": {"team", "--renew"}, "reserve cancel": {"team"}, "host reserve": {"ho-1", "--terms", "1=5%"},
		"cluster quote": {"--gpu-model", "x"}, "cluster create": {"--gpu-model", "x", "--no-wait"}, "cluster ls": {}, "cluster show": {"train"}, "cluster end": {"train", "--no-wait"}, "cluster runs": {"train"}, "cluster logs": {"rn-1"}, "cluster stop-run": {"rn-1"}, "launch": {"--cluster", "train", "--detach"},
		"budget create": {"all", "100"}, "budget ls": {}, "budget show": {"bg-1"}, "budget set": {"bg-1", "--amount", "200"}, "budget delete": {"bg-1"},
		"price ls": {}, "price accept": {"pc-1"}, "price decline": {"pc-1"}, "price propose": {"ho-1", "0.5"},
		"drill host-outage": {"--host", "ho-1", "--yes", "--no-wait"}, "drill zone-outage": {"--zone", "cn/a", "--yes", "--no-wait"}, "drill show": {"dr-1"}, "drill stop": {"dr-1"},
		"exchange set": {"USD", "CNY", "7.1", "--until", "2027-01-01T00:00:00Z"}, "exchange ls": {},
		"volume-discount set": {"CNY", "1000=5%"}, "volume-discount ls": {},
		"volume create": {"data", "--host", "ho-1"}, "volume ls": {}, "volume show": {"data"}, "volume attach": {"data", "mine"}, "volume detach": {"data", "mine"}, "volume rm": {"data"}, "volume clone": {"data", "other"}, "volume move": {"data", "--host", "ho-1"}, "volume resize": {"data", "400"}, "volume backup": {"data"},
		"snapshot create": {"data", "first"}, "snapshot ls": {}, "snapshot show": {"first"}, "snapshot rm": {"first"}, "pricelist create": {"research", "compute=12.5%"}, "pricelist ls": {}, "pricelist own": {}, "pricelist assign": {"pl-1", "ac-1"}, "pricelist withdraw": {"pl-1", "ac-1"},
		"demo": {p.url, "--password-file", "-"}, "end": {"mine"},
		"notifications": {}, "webhook ls": {}, "webhook create": {"https://example.com"}, "webhook change": {"wh-1", "--enabled=false"}, "webhook rotate": {"wh-1"}, "webhook delete": {"wh-1"},
		"webhook test": {"wh-1"}, "webhook deliveries": {"wh-1"}, "webhook redeliver": {"wh-1", "wd-1"},
		"sim run": {"../../docs/simulate/jobs.csv", "--fleet", "../../docs/simulate/fleet.yaml"}, "sim export": {},
	}
	// In the order of the tree, but a backup is restored after it was made, and
	// what ends the lease comes last.
	names := []string{}
	for _, c := range all(newRoot()) {
		if !c.HasSubCommands() {
			names = append(names, strings.TrimPrefix(c.CommandPath(), "suanli "))
		}
	}
	slices.SortStableFunc(names, func(a, b string) int { return order(a) - order(b) })
	for _, name := range names {
		if why, exempt := noJSON[name]; exempt {
			if _, both := arguments[name]; both {
				t.Errorf("%s %s, and arguments are given for it", name, why)
			}
			continue
		}
		args, ok := arguments[name]
		if !ok {
			t.Errorf("%s: say here with what arguments it prints, or why it prints nothing", name)
			continue
		}
		words := append(strings.Fields(name), args...)
		words = append(words, "--json", "--server", p.url, "--token", "t")
		if name == "launch" {
			words = append(words, "--", "true")
		}
		if name == "exec" {
			words = append(words, "mine", "exit", "3")
		}
		ctx, cancel := context.WithCancel(t.Context())
		var out strings.Builder
		var stdout io.Writer = &out
		if name == "port-forward" { // goes on until it is stopped
			stdout = &stopping{Writer: &out, stop: cancel}
		}
		var side strings.Builder
		err := runInto(ctx, stdout, &side, words...)
		cancel()
		var exit exitError
		if err != nil && name != "doctor" && !errors.As(err, &exit) {
			t.Errorf("%s: %v", name, err)
		}
		in := json.NewDecoder(strings.NewReader(out.String()))
		values := 0
		for {
			var v any
			if err := in.Decode(&v); err == io.EOF {
				break
			} else if err != nil {
				t.Errorf("%s: not JSON: %v\n%s", name, err, out.String())
				break
			}
			values++
		}
		if want := map[string]int{"logs": 2, "cluster logs": 2}[name]; values != max(1, want) {
			t.Errorf("%s printed %d values:\n%s", name, values, out.String())
		}
		if name == "exec" && (exit.code != 3 || !strings.Contains(out.String(), `"exit_code": 3`) || !strings.Contains(out.String(), `"stdout": "hello\n"`) || !strings.Contains(out.String(), `"stderr": "aside\n"`)) {
			t.Errorf("exec exits with %d and printed %s", exit.code, out.String())
		}
	}
}

func order(name string) int { return slices.Index([]string{"", "backup", "restore", "end"}, name) }

// stopping stops what writes to it after the first write.
type stopping struct {
	io.Writer
	stop func()
}

func (s *stopping) Write(p []byte) (int, error) {
	defer s.stop()
	return s.Writer.Write(p)
}

func TestRefusalsOfTheCloudHaveExitCodes(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]int{
		400: exitUsage, 401: exitUnauthorized, 402: exitPayment, 403: exitUnauthorized, 404: exitNotFound, 409: exitConflict,
		410: exitNotFound, 412: exitConflict, 422: exitUsage, 429: exitUnavailable, 500: exitFailure, 503: exitUnavailable,
	} {
		t.Run(strconv.Itoa(status), func(t *testing.T) {
			t.Parallel()
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/problem+json")
				w.WriteHeader(status)
				io.WriteString(w, `{"status":`+strconv.Itoa(status)+`,"code":"made_up","detail":"what was found and what to do"}`)
			}))
			defer s.Close()
			_, _, err := run(t.Context(), "show", "mine", "--server", s.URL, "--token", "t")
			if err == nil || err.Error() != "what was found and what to do" {
				t.Errorf("the error is %v", err)
			}
			if got := report(err); got != want {
				t.Errorf("exit code %d, want %d", got, want)
			}
		})
	}
}

func TestMistakesOnTheCommandLineExitAsUsage(t *testing.T) {
	t.Parallel()
	for _, line := range []string{
		"show", "show a b", "shwo mine", "host shwo", "ps --nonsense", "quote --disk many", "port-forward mine http", "config check --listen nowhere", "cp here there",
	} {
		_, _, err := run(t.Context(), strings.Fields(line)...)
		if got := report(err); got != exitUsage {
			t.Errorf("suanli %s exits with %d (%v), want %d", line, got, err, exitUsage)
		}
	}
}

func TestMistypedWordsAreAnsweredWithTheNearest(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"shwo mine": "did you mean show?", "host lsit": "did you mean list", "rent --templte x": "did you mean --template?", "stop mine --no-wiat": "did you mean --no-wait?",
		"ps --nonsense": "suanli ps has no flag --nonsense",
	} {
		_, _, err := run(t.Context(), strings.Fields(line)...)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("suanli %s: %v; want %s", line, err, want)
		}
	}
}

func TestCloudThatIsNotThereIsUnavailable(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(nil)
	s.Close()
	_, _, err := run(t.Context(), "ps", "--server", s.URL, "--token", "t")
	if got := report(err); got != exitUnavailable {
		t.Errorf("exit code %d (%v), want %d", got, err, exitUnavailable)
	}
}

func TestShellsCompleteNamesOfLeasesAndHosts(t *testing.T) {
	t.Parallel()
	p := newPretence(t)
	for _, c := range all(newRoot()) {
		if c.HasSubCommands() || !strings.Contains(c.Use, "LEASE") && !strings.Contains(c.Use, " HOST") && c.Name() != "cp" {
			continue
		}
		path := strings.Fields(strings.TrimPrefix(c.CommandPath(), "suanli "))
		out, _, err := run(t.Context(), append([]string{"__complete", "--server", p.url, "--token", "t"}, append(path, "")...)...)
		if err != nil || !strings.HasPrefix(out, "mine") && !strings.HasPrefix(out, "rack") {
			t.Errorf("%s completes its first argument to %q, %v", c.CommandPath(), out, err)
		}
	}
	for _, c := range []struct{ line, want string }{
		{"ssh|", "mine\trunning"}, {"ssh|mi", "mine\t"}, {"ssh|ls-", "ls-1\t"}, {"ssh|x", ""}, {"exec|", "mine"}, {"logs|", "mine"}, {"bill|m", "mine"}, {"stop|m", "mine"},
		{"cp|", "mine:\t"}, {"host show|", "rack\tho-1"}, {"host show|ho", "ho-1\track"}, {"host token --region|", "1\t"}, {"host price --gpu-model|", "1\t"}, {"quote|", "1\t"}, {"gateway remove|", "1\t"}, {"ps --state|", "accepted"}, {"rent --template|", "1\t"}, {"ssh mine|", ""}, {"log|", "logs\t"},
	} {
		words, last, _ := strings.Cut(c.line, "|")
		args := append([]string{"__complete"}, strings.Fields(words)...)
		if c.line == "log|" {
			args, last = args[:1], "log"
		}
		// Flags go before the word that is being typed.
		args = append(args[:1:1], append([]string{"--server", p.url, "--token", "t"}, append(args[1:], last)...)...)
		out, _, err := run(t.Context(), args...)
		if err != nil {
			t.Fatal(err)
		}
		lines := slices.DeleteFunc(strings.Split(strings.TrimSpace(out), "\n"), func(l string) bool { return strings.HasPrefix(l, ":") })
		got := strings.Join(lines, "\n")
		if c.want == "" && got != "" || !strings.HasPrefix(got, c.want) {
			t.Errorf("%s completes to %q, want %q", c.line, got, c.want)
		}
	}
}

func TestCompletionIsQuietWithoutACloud(t *testing.T) {
	t.Parallel()
	out, _, err := run(t.Context(), "__complete", "--server", "http://127.0.0.1:1", "ssh", "")
	if err != nil || strings.TrimSpace(out) != ":1" {
		t.Errorf("%v, %q", err, out)
	}
}

func TestCompletionScriptsArePrinted(t *testing.T) {
	t.Parallel()
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		out, _, err := run(t.Context(), "completion", shell)
		if err != nil || !strings.Contains(out, "__complete") || !strings.Contains(out, "suanli") {
			t.Errorf("%s: %v, %d bytes", shell, err, len(out))
		}
	}
}
