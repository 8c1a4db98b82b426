package config

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode"
)

func noEnv(string) (string, bool) { return "", false }

func write(t *testing.T, text string) string {
	t.Helper()
	p := filepath.Join(t.TempDir(), "suanli.yaml")
	if err := os.WriteFile(p, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return p
}

func TestDefaultsAreValid(t *testing.T) {
	c, err := Load("", noEnv, nil)
	if err != nil {
		t.Fatal(err)
	}
	if c.Listen != "127.0.0.1:7080" || c.StoragePrice != 100_000_000 {
		t.Fatalf("unexpected defaults: %+v", c)
	}
}

func TestFlagsWinOverEnvironmentWinsOverFile(t *testing.T) {
	p := write(t, "region: file\nzone: file\nlog_level: debug\n")
	env := func(k string) (string, bool) {
		v, ok := map[string]string{"SUANLI_REGION": "env", "SUANLI_ZONE": "env"}[k]
		return v, ok
	}
	c, err := Load(p, env, map[string]string{"region": "flag"})
	if err != nil {
		t.Fatal(err)
	}
	if c.Region != "flag" || c.Zone != "env" || c.LogLevel != "debug" {
		t.Fatalf("region %q, zone %q, log level %q; want flag, env, debug", c.Region, c.Zone, c.LogLevel)
	}
}

func TestBadConfigurationSaysWhatIsWrongAndWhere(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"unknown key", "regoin: a\n", `did you mean "region"`},
		{"not YAML", "region: [a\n", "suanli.yaml"},
		{"a list", "region: [a, b]\n", "single value"},
		{"a word for a number", "minimum_seconds: soon\n", "whole number from 0 to 86400"},
		{"a negative price", "storage_price: \"-1\"\n", "cannot be negative"},
		{"too many decimals", "egress_price: \"0.0000000001\"\n", "at most 9 decimals"},
		{"a bare port", "listen: \"7080\"\n", "HOST:PORT"},
		{"two listeners on one address", "listen: 127.0.0.1:7022\n", "are both"},
		{"half of TLS", "tls_cert: " + os.Args[0] + "\n", "both or neither"},
		{"a missing file", "tls_key: /nowhere/key.pem\n", "no such file"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Load(write(t, c.text), noEnv, nil)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("error %v; want it to say %q", err, c.want)
			}
		})
	}
}

func TestSimulatingNeedsLeaveOfTheCloudAndNotOfTheHost(t *testing.T) {
	c, err := Load(write(t, "simulate: 8x4090\n"), noEnv, nil)
	if err != nil {
		t.Fatalf("a host that simulates was asked for a setting of its cloud: %v", err)
	}
	if err := c.CheckOwnAgent(); err == nil || !strings.Contains(err.Error(), "allow_simulated") {
		t.Errorf("a cloud with a simulating agent of its own: %v", err)
	}
}

func TestEverySettingIsDocumentedAndShown(t *testing.T) {
	c, err := Load("", noEnv, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range Settings() {
		if s.Doc == "" {
			t.Errorf("%s has no description", s.Key)
		}
		if !strings.ContainsFunc(s.DocZH, func(r rune) bool { return unicode.Is(unicode.Han, r) }) {
			t.Errorf("%s has no description in Chinese", s.Key)
		}
		if _, ok := c.Values()[s.Key]; !ok {
			t.Errorf("%s is not shown", s.Key)
		}
	}
	if len(chinese) != len(Settings()) {
		t.Errorf("%d settings and %d descriptions in Chinese: one is of nothing", len(Settings()), len(chinese))
	}
}

func TestStepsAreReadExactlyAndInOrderOnly(t *testing.T) {
	t.Parallel()
	load := func(key, value string) (*Config, error) {
		return Load("", func(string) (string, bool) { return "", false }, map[string]string{key: value})
	}
	c, err := load("sla_credits", "99.9%=10%, 99%=25%,95%=100%")
	if err != nil || !slices.Equal(c.SLACredits, []Step{{999_000, 1000}, {990_000, 2500}, {950_000, 10_000}}) {
		t.Errorf("%v, %v", c.SLACredits, err)
	}
	if got := c.Values()["sla_credits"]; got != "99.9%=10%,99%=25%,95%=100%" {
		t.Errorf("shown as %s", got)
	}
	if c, err = load("host_penalties", "3600=5.5%,86400=20%"); err != nil || !slices.Equal(c.HostPenalties, []Step{{3600, 550}, {86400, 2000}}) {
		t.Errorf("%v, %v", c.HostPenalties, err)
	}
	for key, values := range map[string][]string{
		"sla_credits":    {"99.9", "99.9%", "99.9%=10", "101%=1%", "99.99999%=1%", "95%=100%,99%=25%", "99%=25%,95%=10%", "-1%=1%", "%=1%", "99%=1%,"},
		"host_penalties": {"x=1%", "-1=1%", "10=1%,5=2%", "10=200%"},
	} {
		for _, v := range values {
			if _, err := load(key, v); err == nil {
				t.Errorf("%s takes %q", key, v)
			}
		}
	}
}
