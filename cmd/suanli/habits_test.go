package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mattn/go-runewidth"

	"suanli.dev/internal/config"
	"suanli.dev/internal/store"
)

// emptyStore makes the database of a cloud in a data folder.
func emptyStore(t *testing.T, data string) {
	t.Helper()
	db, err := store.Open(t.Context(), "sqlite:"+filepath.Join(data, "suanli.db"))
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestBackupOfNothingIsAnErrorAndMakesNothing(t *testing.T) {
	t.Parallel()
	at := t.TempDir()
	data, file := filepath.Join(at, "data"), filepath.Join(at, "backup.tar")
	_, _, err := run(t.Context(), "backup", file, "--data-dir", data)
	if err == nil || report(err) != exitNotFound || !strings.Contains(err.Error(), "no cloud to back up") {
		t.Errorf("a backup without a cloud: %v", err)
	}
	if left, err := os.ReadDir(at); err != nil || len(left) > 0 {
		t.Errorf("it left %v, %v", left, err)
	}
}

func TestDataFolderInUseIsBackedUpAndNotRestoredInto(t *testing.T) {
	t.Parallel()
	data, file := t.TempDir(), filepath.Join(t.TempDir(), "backup.tar")
	emptyStore(t, data)
	release, err := store.Lock("sqlite:" + filepath.Join(data, "suanli.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	if _, _, err := run(t.Context(), "backup", file, "--data-dir", data); err != nil {
		t.Errorf("a cloud that runs is not backed up: %v", err)
	}
	if _, _, err := run(t.Context(), "restore", file, "--data-dir", data); err == nil || !strings.Contains(err.Error(), "in use by process") {
		t.Errorf("restored below a running cloud: %v", err)
	}
	_, _, err = run(t.Context(), "server", "--data-dir", data, "--listen", "127.0.0.1:0", "--agent-listen", "127.0.0.1:0", "--ssh-listen", "127.0.0.1:0")
	if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("in use by process %d", os.Getpid())) {
		t.Errorf("a second control plane: %v", err)
	}
	elsewhere := t.TempDir()
	if _, _, err := run(t.Context(), "restore", file, "--data-dir", elsewhere); err != nil {
		t.Errorf("restored into an empty folder: %v", err)
	}
}

func TestBackupReplacesAFileOnlyWhenTold(t *testing.T) {
	t.Parallel()
	data, file := t.TempDir(), filepath.Join(t.TempDir(), "backup.tar")
	emptyStore(t, data)
	if err := os.WriteFile(file, []byte("the only good one"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, _, err := run(t.Context(), "backup", file, "--data-dir", data)
	if err == nil || !strings.Contains(err.Error(), "--force") {
		t.Errorf("an existing file: %v", err)
	}
	if b, err := os.ReadFile(file); err != nil || string(b) != "the only good one" {
		t.Errorf("the older backup is now %q, %v", b, err)
	}
	if _, _, err := run(t.Context(), "backup", file, "--data-dir", data, "--force"); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(file); err != nil || string(b) == "the only good one" {
		t.Errorf("--force left the older backup: %v", err)
	}
}

func TestClocksAreToldNoBetterThanTheyAreKnown(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		ahead, roundTrip time.Duration
		want             string
	}{
		{0, 2 * time.Millisecond, "its clock and this one's agree to 2 ms"},
		{-40 * time.Millisecond, 100 * time.Millisecond, "its clock and this one's agree to 51 ms"},
		{408 * time.Millisecond, 2 * time.Millisecond, "its clock is 408 ms ahead of this one's"},
		{-3 * time.Second, 2 * time.Millisecond, "its clock is 3000 ms behind this one's"},
	} {
		if got := clocks(c.ahead, c.roundTrip); got != c.want {
			t.Errorf("%s ahead after %s: got %q, want %q", c.ahead, c.roundTrip, got, c.want)
		}
	}
}

func TestDoctorTellsTheTruthAboutClockAndEngine(t *testing.T) {
	t.Parallel()
	mux := http.NewServeMux()
	mux.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) {
		// A header that is a second wrong: it has whole seconds and does not count.
		w.Header().Set("Date", time.Now().Add(-time.Second).UTC().Format(http.TimeFormat))
		_ = json.NewEncoder(w).Encode(map[string]any{"ready": true, "time": time.Now().UTC()})
	})
	s := httptest.NewServer(mux)
	defer s.Close()
	data := t.TempDir()
	if err := os.MkdirAll(filepath.Join(data, "agent"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(data, "agent", engineFile), []byte("unix:///nonexistent/engine.sock\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	out, _, err := run(t.Context(), "doctor", "--data-dir", data, "--public-url", s.URL)
	if err == nil {
		t.Error("an engine that is not there is good")
	}
	if !strings.Contains(out, "ready; its clock and this one's agree to") {
		t.Errorf("the same clock, and doctor says:\n%s", out)
	}
	if !strings.Contains(out, "/nonexistent/engine.sock") || !strings.Contains(out, "; start Docker") {
		t.Errorf("doctor does not ask the agent's own engine, or runs advice into the error:\n%s", out)
	}
	if got := engineAddress(&config.Config{DataDir: data, Docker: "unix:///other.sock"}); got != "unix:///other.sock" {
		t.Errorf("--docker is not heeded: %s", got)
	}
}

func TestBothVerbsWithADeadlineTakeTimeAndDuration(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	at := func(s string) *time.Time {
		v, err := time.Parse(time.RFC3339, s)
		if err != nil {
			t.Fatal(err)
		}
		return &v
	}
	for _, c := range []struct {
		d    deadline
		want *time.Time
	}{
		{deadline{}, nil},
		{deadline{in: 8 * time.Hour}, at("2026-05-01T20:00:00Z")},
		{deadline{at: "2026-05-02T00:00:00Z"}, at("2026-05-02T00:00:00Z")},
		{deadline{at: "2h"}, at("2026-05-01T14:00:00Z")},
		{deadline{at: "never"}, &time.Time{}},
	} {
		got, err := c.d.moment(now)
		if err != nil || (got == nil) != (c.want == nil) || got != nil && !got.Equal(*c.want) {
			t.Errorf("%+v: got %v, %v; want %v", c.d, got, err, c.want)
		}
	}
	var usage usageError
	for _, d := range []deadline{{at: "tomorrow"}, {in: -time.Minute}, {at: "never", in: time.Hour}} {
		if _, err := d.moment(now); !errors.As(err, &usage) {
			t.Errorf("%+v is taken: %v", d, err)
		}
	}
	root := newRoot()
	for _, name := range []string{"rent", "set"} {
		c, _, err := root.Find([]string{name})
		if err != nil {
			t.Fatal(err)
		}
		for _, flag := range []string{"stop-at", "stop-in", "idle-stop", "name", "label"} {
			if c.Flags().Lookup(flag) == nil {
				t.Errorf("%s has no --%s", name, flag)
			}
		}
	}
}

// fleetOf is a cloud whose hosts have these identifiers and names.
func fleetOf(t *testing.T, hosts ...[2]string) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		items := []map[string]any{}
		for _, h := range hosts {
			if one := map[string]any{"id": h[0], "name": h[1], "state": "listed", "zone": "z"}; r.URL.Path == "/v1/hosts/"+h[0]+"/drain" {
				_ = json.NewEncoder(w).Encode(one)
				return
			} else {
				items = append(items, one)
			}
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"items": items})
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func TestHostsAreFoundByANameThatOneHas(t *testing.T) {
	t.Parallel()
	url := fleetOf(t, [2]string{"ho-1", "rack-a"}, [2]string{"ho-2", "twin"}, [2]string{"ho-3", "twin"})
	drain := func(host string) (string, error) {
		out, _, err := run(t.Context(), "host", "drain", host, "--server", url, "--token", "t")
		return out, err
	}
	for _, host := range []string{"rack-a", "ho-1"} {
		if out, err := drain(host); err != nil || out != "Host rack-a is listed\n" {
			t.Errorf("drain %s: %q, %v", host, out, err)
		}
	}
	_, err := drain("twin")
	if err == nil || report(err) != exitUsage || !strings.Contains(err.Error(), "ho-2") || !strings.Contains(err.Error(), "ho-3") {
		t.Errorf("a name of two: %v", err)
	}
	_, err = drain("rock")
	if err == nil || report(err) != exitNotFound || !strings.Contains(err.Error(), "rack-a") {
		t.Errorf("a name of none: %v", err)
	}
}

func TestMaintenanceSaysTheWindowAndWhatItDoes(t *testing.T) {
	t.Parallel()
	p := newPretence(t)
	out, _, err := run(t.Context(), "host", "maintenance", "rack", "--until", "8h", "--server", p.url, "--token", "t")
	if err != nil || !strings.Contains(out, "Maintenance of host rack: 2026-05-01") || !strings.Contains(out, "nothing new starts") {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestSSHRunsALineOfShellAsSSHDoes(t *testing.T) {
	t.Parallel()
	p := newPretence(t)
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"ssh", "mine", "--", "echo", "$HOME", "|", "wc", "-l"}, "echo $HOME | wc -l"},
		{[]string{"ssh", "mine", "ls", "-l"}, "ls -l"},
		{[]string{"exec", "mine", "--", "echo", "$HOME"}, "'echo' '$HOME'"},
	} {
		out, _, err := run(t.Context(), append([]string{"--server", p.url, "--token", "t"}, c.args...)...)
		if err != nil || out != "hello\n" {
			t.Errorf("%q: %q, %v", c.args, out, err)
		}
		if got := p.lastLine(); got != c.want {
			t.Errorf("%q runs %s, want %s", c.args, got, c.want)
		}
	}
}

func TestACommandThatReadsNoneOfItsInputEndsWell(t *testing.T) {
	t.Parallel()
	p := newPretence(t)
	root := newRoot()
	root.SetArgs([]string{"--server", p.url, "--token", "t", "ssh", "mine", "true"})
	root.SetIn(strings.NewReader(strings.Repeat("more than a channel's window\n", 1<<18)))
	var out strings.Builder
	root.SetOut(&out)
	root.SetErr(io.Discard)
	if err := root.ExecuteContext(t.Context()); err != nil || out.String() != "hello\n" {
		t.Errorf("%q, %v", out.String(), err)
	}
}

func TestTablesFitTheirTerminalWithoutLosingAnything(t *testing.T) {
	t.Parallel()
	table := newTable("NAME", "ID", "WHAT IT IS")
	table.add("first", "ls-06h2py4d7nyjvchxh5rxkn6xw8", "a text that is rather long and goes on for some words")
	table.add("第二个", "ls-06h2py4d7nyjvchxh5rxkn6xw9", "一段相当长的说明文字用来检查折行是否按照显示宽度而不是字节数来计算")
	for _, width := range []int{0, 200, 100, 70, 60, 30} {
		var b strings.Builder
		table.layout(&b, width)
		out := b.String()
		for _, word := range []string{"ls-06h2py4d7nyjvchxh5rxkn6xw8", "ls-06h2py4d7nyjvchxh5rxkn6xw9", "words", "第二个", "计算", "NAME"} {
			if !strings.Contains(strings.Join(strings.Fields(out), ""), word) {
				t.Errorf("%d columns: %q is lost:\n%s", width, word, out)
			}
		}
		for line := range strings.Lines(out) {
			line = strings.TrimSuffix(line, "\n")
			if w := runewidth.StringWidth(line); width >= 60 && w > width && strings.Count(line, " ") > 8 {
				t.Errorf("%d columns: a line has %d: %s", width, w, line)
			}
		}
		lines := strings.Count(out, "\n")
		if width == 0 && lines != 3 || width == 70 && lines <= 3 || width == 30 && !strings.HasPrefix(out, "NAME        first\n") {
			t.Errorf("%d columns, %d lines:\n%s", width, lines, out)
		}
	}
}

func TestOutputForProgramsHasNoControlCodes(t *testing.T) {
	t.Parallel()
	p := newPretence(t)
	for _, line := range []string{"ps", "ls", "top --once", "host list", "search", "show mine"} {
		out, _, err := run(t.Context(), append(strings.Fields(line), "--server", p.url, "--token", "t")...)
		if err != nil || out == "" || strings.Contains(out, "\x1b") {
			t.Errorf("%s: %v, %q", line, err, out)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var out strings.Builder
	err := runInto(ctx, &stopping{Writer: &out, stop: cancel}, &out, "top", "--server", p.url, "--token", "t")
	if err != nil || strings.Contains(out.String(), "\x1b") {
		t.Errorf("top into a pipe: %v, %q", err, out.String())
	}
}

func TestSignInIsNeverReadInHalf(t *testing.T) {
	t.Setenv("SUANLI_CLIENT_DIR", t.TempDir())
	if err := writeSignIn(signIn{Server: "http://first"}); err != nil {
		t.Fatal(err)
	}
	var writing sync.WaitGroup
	writing.Go(func() {
		for i := range 300 {
			if err := writeSignIn(signIn{Server: "http://" + strings.Repeat("long", i)}); err != nil {
				t.Error(err)
			}
		}
	})
	for range 300 {
		if s, err := readSignIn(); err != nil || s.Server == "" {
			t.Fatalf("read %+v, %v", s, err)
		}
	}
	writing.Wait()
}

func TestNoWaitReturnsAtOnce(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		flags []string
		want  bool
	}{{nil, true}, {[]string{"--no-wait"}, false}, {[]string{"--wait=false"}, false}, {[]string{"--wait"}, true}} {
		var w waiting
		cmd := showCommand()
		w.flags(cmd, "wait")
		if err := cmd.ParseFlags(c.flags); err != nil || w.yes() != c.want {
			t.Errorf("%v: waits %v, %v", c.flags, w.yes(), err)
		}
	}
	root := newRoot()
	for _, name := range []string{"rent", "stop", "start", "restart", "end"} {
		c, _, err := root.Find([]string{name})
		if err != nil || c.Flags().Lookup("no-wait") == nil {
			t.Errorf("%s has no --no-wait: %v", name, err)
		}
	}
	if c, _, err := root.Find([]string{"ls"}); err != nil || c.Name() != "ps" || !slices.Contains(c.Aliases, "ls") {
		t.Errorf("ls is no alias of ps: %v", err)
	}
}

func TestAnArchiveWithoutAFileMakesNoImage(t *testing.T) {
	t.Parallel()
	p := newPretence(t)
	for _, name := range []string{"/dev/null", rootfs(t)} {
		_, _, err := run(t.Context(), "image", "push", "box:1", name, "--server", p.url, "--token", "t")
		if err == nil || report(err) != exitUsage || !strings.Contains(err.Error(), "no file in it") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestNobodySignedInExitsAsSuch(t *testing.T) {
	t.Setenv("SUANLI_CLIENT_DIR", t.TempDir())
	if _, _, err := run(t.Context(), "ps"); err == nil || report(err) != exitUnauthorized {
		t.Errorf("not signed in: %v", err)
	}
}

func TestALanguageThatIsNotThereIsRefused(t *testing.T) {
	t.Parallel()
	for lang, there := range map[string]bool{"fr": false, "english": false, "en": true, "EN_us.UTF-8": true, "zh": true, "zh-CN": true} {
		_, _, err := run(t.Context(), "openapi", "--lang", lang)
		if (err == nil) != there || err != nil && (report(err) != exitUsage || !strings.Contains(err.Error(), "en and zh")) {
			t.Errorf("%s: %v", lang, err)
		}
	}
}

func TestAddressOfNoCloudIsRefusedBeforeAnythingIsAsked(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"ftp://x", "x", "127.0.0.1:7080", "http://", "http://a b"} {
		_, side, err := run(t.Context(), "login", address)
		if err == nil || report(err) != exitUsage || side != "" || !strings.Contains(err.Error(), "no address of a cloud") {
			t.Errorf("%s: asked %q, %v", address, side, err)
		}
	}
}

func TestWaitThatIsCutOffSaysWhatGoesOn(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]any{"id": "ls-1", "name": "mine", "state": "stopping"})
	}))
	defer s.Close()
	for _, verb := range []string{"stop", "end"} {
		ctx, cancel := context.WithCancel(t.Context())
		var out strings.Builder
		err := runInto(ctx, &stopping{Writer: &out, stop: cancel}, &out, verb, "mine", "--server", s.URL, "--token", "t")
		cancel()
		if err == nil || !strings.Contains(err.Error(), "has the request and goes on") || !strings.Contains(err.Error(), "suanli show ls-1") {
			t.Errorf("%s: %v", verb, err)
		}
	}
}

func TestMoneyThatIsEnteredIsMoreThanNothing(t *testing.T) {
	t.Parallel()
	for _, verb := range []string{"deposit", "refund"} {
		for _, amount := range [][]string{{"-5"}, {"-0.5"}, {"0"}, {"--", "-5"}} {
			_, _, err := run(t.Context(), append([]string{verb, "--server", "http://127.0.0.1:1", "--token", "t", "ac-1"}, amount...)...)
			if err == nil || report(err) != exitUsage || !strings.Contains(err.Error(), "want more than 0") {
				t.Errorf("%s %s: %v", verb, amount, err)
			}
		}
	}
}

func TestOnlyYesConfirms(t *testing.T) {
	t.Parallel()
	for answer, meant := range map[string]bool{"yes\n": true, "y\n": false, "\n": false, "": false} {
		cmd := depositCommand()
		cmd.SetIn(strings.NewReader(answer))
		cmd.SetErr(io.Discard)
		if err := confirm(cmd, "Enter?"); (err == nil) != meant {
			t.Errorf("%q: %v", answer, err)
		}
	}
}
