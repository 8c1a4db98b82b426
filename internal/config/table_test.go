package config

import "testing"

func TestFirewallTableIsANameThatNftablesTakes(t *testing.T) {
	t.Parallel()
	none := func(string) (string, bool) { return "", false }
	c, err := Load("", none, map[string]string{"firewall_table": "suanli-2"})
	if err != nil || c.FirewallTable != "suanli-2" {
		t.Errorf("got %q, %v", c.FirewallTable, err)
	}
	if c, err := Load("", none, nil); err != nil || c.FirewallTable != "suanli" {
		t.Errorf("the default is %q, %v", c.FirewallTable, err)
	}
	for _, bad := range []string{"", "2nd", "a b", "a;flush ruleset", "-x"} {
		if _, err := Load("", none, map[string]string{"firewall_table": bad}); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}
