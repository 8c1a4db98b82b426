package e2e

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"suanli.dev/internal/protocol"
)

func TestAHostileTenantReachesNobody(t *testing.T) {
	t.Parallel()
	c := sharedCloud(t)
	victim, evil := newTenant(t, c, "victim", "100"), newTenant(t, c, "evil", "100")
	v := victim.rent(t, "victim", "-p", "8000", "--", "httpd", "-f", "-p", "8000", "-h", "/www")
	e := evil.rent(t, "evil", "-p", "8000")

	published := ""
	for _, p := range v.Ports {
		published = fmt.Sprint(p)
	}
	if published == "" {
		t.Fatalf("the victim has no published port: %+v", v)
	}
	direct := strings.TrimSpace(victim.inside(t, "victim", "ip -4 -o addr show scope global | sed 's/.*inet //; s,/.*,,'"))
	gateway := strings.Fields(evil.inside(t, "evil", "ip route | grep default"))[2]
	_, apiPort, _ := net.SplitHostPort(c.api)
	_, agentPort, _ := net.SplitHostPort(c.agents)
	listener, err := net.Listen("tcp", "0.0.0.0:0") // something of the host's own
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			conn.Close()
		}
	}()
	_, own, _ := net.SplitHostPort(listener.Addr().String())

	hosts := []string{gateway}
	addresses, _ := net.InterfaceAddrs()
	for _, a := range addresses {
		if ip, ok := a.(*net.IPNet); ok && ip.IP.To4() != nil && !ip.IP.IsLoopback() {
			hosts = append(hosts, ip.IP.String())
		}
	}
	targets := []string{direct + " 8000", direct + " 22", "169.254.169.254 80", "100.100.100.200 80", "10.255.255.254 80", "172.16.255.254 80", "192.168.255.254 80"}
	for _, h := range hosts {
		for _, p := range []string{own, apiPort, agentPort, published, "22", "2375"} {
			targets = append(targets, h+" "+p)
		}
	}
	// The controls: what the test forbids is there to be reached.
	for _, there := range []string{net.JoinHostPort(direct, "8000"), net.JoinHostPort(ownAddress(), published), net.JoinHostPort(ownAddress(), own), net.JoinHostPort(ownAddress(), apiPort)} {
		conn, err := net.DialTimeout("tcp", there, 5*time.Second)
		if err != nil {
			t.Fatalf("the host itself cannot reach %s: %v", there, err)
		}
		conn.Close()
	}
	var line strings.Builder
	for _, target := range targets {
		fmt.Fprintf(&line, "(timeout 3 nc -w 2 %s </dev/null >/dev/null 2>&1 && echo reached %s) & ", target, target)
	}
	line.WriteString("wait; echo tried")
	if out := evil.inside(t, "evil", line.String()); out != "tried\n" {
		t.Errorf("of %d targets:\n%s", len(targets), out)
	}

	t.Run("nothing of the host is seen", func(t *testing.T) {
		for what, line := range map[string]string{
			"a mount":            "mount -t tmpfs none /tmp 2>/dev/null && echo done",
			"a device":           "mknod /tmp/disk b 8 0 2>/dev/null && echo done",
			"sysrq":              "echo h > /proc/sysrq-trigger 2>/dev/null && echo done",
			"a kernel setting":   "echo 1 > /proc/sys/vm/drop_caches 2>/dev/null && echo done",
			"a core pattern":     "echo '|/tmp/x' > /proc/sys/kernel/core_pattern 2>/dev/null && echo done",
			"kernel memory":      "head -c 1 /proc/kcore 2>/dev/null | grep -q . && echo done",
			"a cgroup":           "mkdir /sys/fs/cgroup/pids/x 2>/dev/null && echo done",
			"the mounted binary": "echo x >> " + protocol.InstanceBinary + " 2>/dev/null && echo done",
			"the host's files":   "ls -d " + c.dir + " " + filepath.Join(c.hosts[0].dir, "agent") + " /var/lib/docker 2>/dev/null && echo done",
			"the host's clock":   "date -s @0 2>/dev/null >/dev/null && [ $(date +%Y) = 1970 ] && echo done",
			"raw packets":        "ping -c 1 -W 1 " + gateway + " 2>/dev/null >/dev/null && echo done",
			"another's process":  "cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | grep -E 'docker[d]|agent joi[n]' && echo done",
		} {
			if out := evil.inside(t, "evil", line+"; true"); strings.Contains(out, "done") {
				t.Errorf("%s: %s", what, out)
			}
		}
	})
	t.Run("only its own GPU is seen", func(t *testing.T) {
		out := evil.inside(t, "evil", "nvidia-smi -L; env; cat /proc/1/environ | tr '\\0' '\\n'")
		if !strings.Contains(out, e.GPUs[0]) || strings.Contains(out, v.GPUs[0]) || strings.Contains(out, "NVIDIA_VISIBLE_DEVICES=all") {
			t.Errorf("inside, of %v and not of %v: %s", e.GPUs, v.GPUs, out)
		}
	})
	t.Run("the disk ends where it was paid to", func(t *testing.T) {
		out := evil.inside(t, "evil", "dd if=/dev/zero of=/root/fill bs=1M count=3000 2>&1; du -m /root/fill | cut -f1; rm /root/fill")
		if !strings.Contains(out, "No space left") {
			t.Errorf("3000 MiB onto a disk of 1 GiB: %s", out)
		}
		// Kernel memory that a tmpfs takes counts against the lease as well.
		out = evil.inside(t, "evil", "dd if=/dev/zero of=/dev/shm/fill bs=1M count=100000 2>&1; rm -f /dev/shm/fill; echo alive")
		if !strings.Contains(out, "No space left") {
			t.Errorf("filling /dev/shm: %s", out)
		}
	})
	t.Run("processes end where they are limited", func(t *testing.T) {
		limit, err := docker(c.engine, "inspect", "--format", "{{.HostConfig.PidsLimit}}", "suanli-"+e.ID)
		if err != nil || strings.TrimSpace(limit) == "<nil>" || strings.HasPrefix(limit, "0") || strings.HasPrefix(limit, "-") {
			t.Fatalf("the limit of processes is %q, %v", limit, err)
		}
		r := evil.try("exec", "evil", "--", "n=0; while [ $n -lt 20000 ]; do sleep 5 >/dev/null 2>&1 & n=$((n+1)); done; echo all of them")
		if strings.Contains(r.out, "all of them") {
			t.Errorf("20000 processes under a limit of %s", limit)
		}
		if out := victim.inside(t, "victim", "echo fine"); out != "fine\n" {
			t.Errorf("the victim suffers: %q", out)
		}
	})
	t.Run("keys and tokens open only their own leases", func(t *testing.T) {
		for _, args := range [][]string{{"show", v.ID}, {"stop", v.ID}, {"end", v.ID}, {"logs", v.ID}, {"bill", v.ID}, {"exec", v.ID, "--", "true"}, {"url", v.ID}, {"history", v.ID}} {
			if r := evil.try(args...); r.code != 3 {
				t.Errorf("suanli %v of another tenant: exit code %d, %s%s", args, r.code, r.out, r.err)
			}
		}
		key, err := os.ReadFile(filepath.Join(evil.dir, "id_ed25519"))
		if err != nil {
			t.Fatal(err)
		}
		signer, err := ssh.ParsePrivateKey(key)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{v.ID, "victim", "root", "", "../" + v.ID} {
			conn, err := ssh.Dial("tcp", c.ssh, &ssh.ClientConfig{User: name, Auth: []ssh.AuthMethod{ssh.PublicKeys(signer)}, HostKeyCallback: ssh.InsecureIgnoreHostKey(), Timeout: 10 * time.Second})
			if err == nil {
				conn.Close()
				t.Errorf("the SSH gateway lets another tenant's key in as %q", name)
			}
		}
		mine := evil.appRequest(t, c, e.ID, "8000")
		theirs := victim.appRequest(t, c, v.ID, "8000")
		mixed := mine.Clone(t.Context())
		mixed.Host = theirs.Host
		res, err := noRedirect.Do(mixed)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != http.StatusUnauthorized {
			t.Errorf("another lease's token at the victim's address: %s", res.Status)
		}
		// The operator sees the lease, and not what is in it.
		for _, args := range [][]string{{"logs", v.ID}, {"exec", v.ID, "--", "true"}, {"url", v.ID}} {
			if r := c.operator.try(args...); r.code != 4 {
				t.Errorf("suanli %v by the operator: exit code %d, %s%s", args, r.code, r.out, r.err)
			}
		}
	})
	victim.must(t, "end", "victim")
	evil.must(t, "end", "evil")
}
