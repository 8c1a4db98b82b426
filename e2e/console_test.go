package e2e

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

const consoleFolder = "../console"

// needBrowser skips a test where there is no browser, or no console to show it,
// and returns the browser.
func needBrowser(t *testing.T) (chromium string) {
	t.Helper()
	need(t)
	for _, name := range []string{os.Getenv("SUANLI_TEST_CHROMIUM"), "chromium", "chromium-browser", "google-chrome-stable", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			chromium = path
			break
		}
	}
	if chromium == "" {
		t.Skip("there is no Chromium (chromium), and SUANLI_TEST_CHROMIUM names none")
	}
	if _, err := exec.LookPath("node"); err != nil {
		t.Skip("Node is not installed")
	}
	for file, how := range map[string]string{
		consoleFolder + "/node_modules/@playwright/test/cli.js": "npm ci in console/ installs it",
		"../internal/console/dist/index.html":                   "make console builds it",
	} {
		if _, err := os.Stat(file); err != nil {
			t.Skipf("there is no %s: %s", strings.TrimPrefix(file, "../"), how)
		}
	}
	return chromium
}

// hostileScript prints what attacks terminals, and pages that show text as HTML.
const hostileScript = `#!/bin/sh
printf '<img src=x onerror=hacked=1><script>hacked=1</script>\n'
printf '\033]0;a name for the tab\007\033]2;another\033\\'
printf '\033]8;;javascript:hacked=1\033\\a link\033]8;;\033\\\n'
printf '\033]52;c;aGFja2Vk\007\033[21t\033[c\033P$q\033\\\033_hacked\033\\'
printf '\033[?1049h\033[3;1H\033[2J\033[?1049l\033[8;1;1t\033#8\033c'
printf '\377\376\000\033[999999999A\033[38;2;999;999;999m\n<img src=x onerror=hacked=1>\033[0m\n'
echo hostile is over
`

func TestTheConsoleInABrowser(t *testing.T) {
	t.Parallel()
	chromium := needBrowser(t)
	mail, postOffice := newMailbox(t)
	c := ownCloud(t, "8x4090", "--minimum-seconds", "1", "--sign-up", "open", "--smtp-address", postOffice, "--smtp-security", "none", "--smtp-from", "cloud@example.test", "--trial-amount", "10")
	if res, err := http.Get("http://" + c.api + "/console/"); err != nil {
		t.Fatal(err)
	} else if res.Body.Close(); res.StatusCode != http.StatusOK {
		t.Skip("the program under test was built without the console")
	}
	all := os.Getenv("SUANLI_TEST_CONSOLE") == "all"
	if all { // clusters have nodes on hosts of their own, and drills cut off a host that no other test needs
		if _, err := c.join("4x4090"); err != nil {
			t.Fatal(err)
		}
	}
	u := newTenant(t, c, "renter", "100")
	l := u.rent(t, "stage")
	operator, err := c.operator.token()
	if err != nil {
		t.Fatal(err)
	}
	c.operator.must(t, "host", "reserve", l.HostID, "--terms", "1=10% 3=20%", "--all-upfront", "500")
	u.inside(t, "stage", `cd /data && mkdir -p folder && ln -s folder link && echo x > '<img src=x onerror=hacked=1>.txt' && echo x > "$(printf 'a\342\200\256txt.sh')"`)
	u.inside(t, "stage", "cat > /data/hostile.sh <<'END'\n"+hostileScript+"END\nchmod 755 /data/hostile.sh")

	helpers := http.NewServeMux()
	helpers.HandleFunc("GET /code", mail.serveCode)
	helpers.HandleFunc("POST /restart", func(w http.ResponseWriter, _ *http.Request) {
		err := c.server.end(syscall.SIGTERM)
		if err == nil {
			err = c.startServer()
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	})
	control := httptest.NewServer(helpers)
	defer control.Close()
	// Pictures of failures, and of all pages, are kept to be looked at.
	out := os.Getenv("SUANLI_TEST_ARTIFACTS")
	if out == "" {
		out = "../bin/console-test"
	}
	out, err = filepath.Abs(out)
	if err != nil {
		t.Fatal(err)
	}
	sockets, err := os.MkdirTemp("", "console") // whose path is short, as a socket's has to be
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(sockets)
	// Ended in time for what it said to be told.
	limit := time.Now().Add(7 * time.Minute)
	if deadline, ok := t.Deadline(); ok && (all || deadline.Before(limit)) {
		limit = deadline.Add(-30 * time.Second)
	}
	ctx, cancel := context.WithDeadline(t.Context(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, "node", "node_modules/@playwright/test/cli.js", "test", "--config", "test/playwright.config.ts")
	cmd.Dir = consoleFolder
	cmd.Args = append(cmd.Args, strings.Fields(os.Getenv("SUANLI_TEST_BROWSER_FLAGS"))...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) } // the browser as well
	cmd.Env = append(os.Environ(), "CI=1", "SUANLI_URL=http://"+c.api, "SUANLI_CHROMIUM="+chromium, "SUANLI_LEASE="+l.ID, "SUANLI_EMAIL=renter@example.test",
		"SUANLI_PASSWORD=a long pass phrase of renter", "SUANLI_OPERATOR="+operator, "SUANLI_CONTROL="+control.URL, "SUANLI_OUT="+out, "SUANLI_SOCKET="+filepath.Join(sockets, "cloud"))
	said, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, said)
	} else {
		t.Logf("%s", said)
	}
	u.must(t, "end", "stage")
}
