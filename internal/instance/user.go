package instance

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// defaultPath is used when neither the image nor the renter sets PATH.
const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// account is the user that commands and sessions run as.
type account struct {
	name   string
	uid    uint32
	gid    uint32
	groups []uint32
	home   string
	shell  string // empty: the image has none
}

func (a account) root() bool { return a.uid == 0 }

// lookUp finds the user that an image names: "", "name", "uid", either with
// ":group". An image without /etc/passwd has numbers only.
func lookUp(spec string) (account, error) {
	user, group, hasGroup := strings.Cut(spec, ":")
	if user == "" {
		user = "0"
	}
	a := account{home: "/"}
	entry := findEntry("/etc/passwd", 7, func(f []string) bool { return f[0] == user || f[2] == user })
	switch number, err := strconv.ParseUint(user, 10, 32); {
	case entry != nil:
		uid, err1 := strconv.ParseUint(entry[2], 10, 32)
		gid, err2 := strconv.ParseUint(entry[3], 10, 32)
		if err1 != nil || err2 != nil {
			return a, fmt.Errorf("user %q: its line in the image's /etc/passwd is damaged", user)
		}
		a.name, a.uid, a.gid, a.home, a.shell = entry[0], uint32(uid), uint32(gid), entry[5], entry[6]
	case err == nil:
		a.name, a.uid = user, uint32(number)
		if number == 0 {
			a.name, a.home = "root", "/root"
		}
	default:
		return a, fmt.Errorf("user %q: the image's /etc/passwd has no such user; name one that it has, or a number", user)
	}
	if hasGroup {
		gid, err := lookUpGroup(group)
		if err != nil {
			return a, err
		}
		a.gid = gid
	}
	a.groups = memberships(a.name)
	if fi, err := os.Stat(a.home); err != nil || !fi.IsDir() {
		a.home = "/"
	}
	a.shell = findShell(a.shell)
	return a, nil
}

func lookUpGroup(group string) (uint32, error) {
	if e := findEntry("/etc/group", 3, func(f []string) bool { return f[0] == group }); e != nil {
		group = e[2]
	}
	gid, err := strconv.ParseUint(group, 10, 32)
	if err != nil {
		return 0, fmt.Errorf("group %q: the image's /etc/group has no such group; name one that it has, or a number", group)
	}
	return uint32(gid), nil
}

// memberships returns the supplementary groups of a user.
func memberships(name string) []uint32 {
	var groups []uint32
	findEntry("/etc/group", 4, func(f []string) bool {
		if slices.Contains(strings.Split(f[3], ","), name) {
			if gid, err := strconv.ParseUint(f[2], 10, 32); err == nil {
				groups = append(groups, uint32(gid))
			}
		}
		return false
	})
	return groups
}

// findEntry returns the first line of a colon-separated file with at least n
// fields that matches.
func findEntry(path string, n int, match func(fields []string) bool) []string {
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		if fields := strings.Split(s.Text(), ":"); len(fields) >= n && match(fields) {
			return fields
		}
	}
	return nil
}

// findShell prefers the user's own shell, unless it is one that lets nobody in:
// images give such shells to service users, and the renter may enter as any.
func findShell(own string) string {
	candidates := []string{"/bin/bash", "/usr/bin/bash", "/bin/sh", "/usr/bin/sh", "/bin/ash", "/busybox/sh"}
	if base := filepath.Base(own); own != "" && base != "nologin" && base != "false" {
		candidates = append([]string{own}, candidates...)
	}
	for _, c := range candidates {
		if executable(c) {
			return c
		}
	}
	return ""
}

func executable(path string) bool {
	fi, err := os.Stat(path)
	return err == nil && !fi.IsDir() && fi.Mode()&0o111 != 0
}

// lookPath finds a command as a shell would, in the PATH of env and seen from dir.
func lookPath(command, dir string, env []string) (string, error) {
	if strings.Contains(command, "/") {
		path := command
		if !filepath.IsAbs(path) {
			path = filepath.Join(dir, path)
		}
		if fi, err := os.Stat(path); err != nil {
			return "", fmt.Errorf("%s: not found in the image", command)
		} else if fi.IsDir() || fi.Mode()&0o111 == 0 {
			return "", fmt.Errorf("%s: there, but not executable", command)
		}
		return path, nil
	}
	path := getenv(env, "PATH")
	for _, d := range filepath.SplitList(path) {
		if d == "" {
			d = dir
		}
		if p := filepath.Join(d, command); executable(p) {
			return p, nil
		}
	}
	return "", fmt.Errorf("%s: not found in any folder of PATH (%s)", command, path)
}

func getenv(env []string, name string) string {
	for _, e := range slices.Backward(env) {
		if v, ok := strings.CutPrefix(e, name+"="); ok {
			return v
		}
	}
	return ""
}

// setenv returns env with name set, and only once.
func setenv(env []string, name, value string) []string {
	env = slices.DeleteFunc(slices.Clone(env), func(e string) bool { return strings.HasPrefix(e, name+"=") })
	return append(env, name+"="+value)
}

// setDefault sets name unless env has it.
func setDefault(env []string, name, value string) []string {
	if getenv(env, name) != "" {
		return env
	}
	return setenv(env, name, value)
}
