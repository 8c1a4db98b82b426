package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"os/signal"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/pkg/sftp"
	"github.com/spf13/cobra"
	"golang.org/x/crypto/ssh"
	"golang.org/x/term"

	"suanli.dev/api"
)

// enter opens an SSH connection to a lease through the gateway, whose host key
// the API told over the connection that is trusted already.
func enter(cmd *cobra.Command, lease string) (*ssh.Client, error) {
	c, err := client(cmd)
	if err != nil {
		return nil, err
	}
	a, err := c.LeaseAccess(cmd.Context(), lease)
	if err != nil {
		return nil, err
	}
	signer, _, err := sshKey()
	if err != nil {
		return nil, err
	}
	want, _, _, _, err := ssh.ParseAuthorizedKey([]byte(a.SSHHostKey))
	if err != nil {
		return nil, fmt.Errorf("the gateway's host key: %w", err)
	}
	address := net.JoinHostPort(a.SSHHost, strconv.Itoa(a.SSHPort))
	conn, err := (&net.Dialer{Timeout: 15 * time.Second}).DialContext(cmd.Context(), "tcp", address)
	if err != nil {
		return nil, err
	}
	sc, chans, reqs, err := ssh.NewClientConn(conn, address, &ssh.ClientConfig{
		User: a.SSHUser, Auth: []ssh.AuthMethod{ssh.PublicKeys(signer)},
		HostKeyCallback: ssh.FixedHostKey(want), Timeout: 15 * time.Second,
	})
	if err != nil {
		conn.Close()
		return nil, errors.New(tr("enter %s: %s; if your key is not known to the cloud, run suanli login again", lease, err))
	}
	return ssh.NewClient(sc, chans, reqs), nil
}

func sshCommand() *cobra.Command {
	var terminal bool
	cmd := &cobra.Command{
		Use: "ssh LEASE [-- COMMAND…]", Short: tr("Open a shell in a lease, or run a line of shell in it"), Args: cobra.MinimumNArgs(1),
		Long: tr("As with ssh itself, the words of a command are joined by spaces and read by the shell inside: variables, pipes and wildcards in them are the instance's. suanli exec passes each word as it is."),
		Example: `  suanli ssh lab
  suanli ssh lab -- 'df -h / | tail -1'`,
		RunE: func(cmd *cobra.Command, args []string) error {
			conn, err := enter(cmd, args[0])
			if err != nil {
				return err
			}
			defer conn.Close()
			line := strings.Join(commandOf(args), " ")
			return runInside(cmd, conn, line, terminal || line == "")
		},
	}
	cmd.Flags().BoolVarP(&terminal, "tty", "t", false, tr("give the command a terminal"))
	cmd.Flags().SetInterspersed(false)
	return cmd
}

// commandOf is the command among the arguments after a lease's name. Flags end at
// the name, so that the command keeps its own; the customary -- before it is not
// part of it.
func commandOf(args []string) []string {
	command := args[1:]
	if len(command) > 0 && command[0] == "--" {
		command = command[1:]
	}
	return command
}

func execCommand() *cobra.Command {
	var terminal bool
	cmd := &cobra.Command{
		Use: "exec LEASE -- COMMAND…", Short: tr("Run a command in a lease; exits with its code"), Args: cobra.MinimumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			command := commandOf(args)
			if len(command) == 0 {
				return usageError{errors.New(tr("give the command to run after --"))}
			}
			conn, err := enter(cmd, args[0])
			if err != nil {
				return err
			}
			defer conn.Close()
			if !wantsJSON(cmd) {
				return runInside(cmd, conn, quoteCommandLine(command), terminal)
			}
			out, side := cmd.OutOrStdout(), cmd.ErrOrStderr()
			stdout, stderr := &strings.Builder{}, &strings.Builder{}
			cmd.SetOut(stdout)
			cmd.SetErr(stderr)
			err = runInside(cmd, conn, quoteCommandLine(command), false)
			cmd.SetOut(out)
			cmd.SetErr(side)
			var exit exitError
			if err != nil && !errors.As(err, &exit) {
				return err
			}
			if perr := printJSON(cmd, map[string]any{"exit_code": exit.code, "stdout": stdout.String(), "stderr": stderr.String()}); perr != nil {
				return perr
			}
			return err // the exit code is the command's all the same
		},
	}
	cmd.Flags().BoolVarP(&terminal, "tty", "t", false, tr("give the command a terminal"))
	cmd.Flags().SetInterspersed(false)
	return cmd
}

// runInside runs a line of shell, or a login shell if it is empty, on a terminal
// if one is wanted and there is one here.
func runInside(cmd *cobra.Command, conn *ssh.Client, line string, terminal bool) error {
	s, err := conn.NewSession()
	if err != nil {
		return err
	}
	defer s.Close()
	s.Stdout, s.Stderr = cmd.OutOrStdout(), cmd.ErrOrStderr()
	in := int(os.Stdin.Fd())
	s.Stdin = cmd.InOrStdin()
	if terminal && term.IsTerminal(in) {
		width, height, err := term.GetSize(in)
		if err != nil {
			width, height = 80, 24
		}
		kind := os.Getenv("TERM")
		if kind == "" {
			kind = "xterm"
		}
		if err := s.RequestPty(kind, height, width, ssh.TerminalModes{}); err != nil {
			return err
		}
		before, err := term.MakeRaw(in)
		if err != nil {
			return err
		}
		defer func() { _ = term.Restore(in, before) }()
		resized := make(chan os.Signal, 1)
		signal.Notify(resized, syscall.SIGWINCH)
		defer signal.Stop(resized)
		go func() {
			for range resized {
				if w, h, err := term.GetSize(in); err == nil {
					_ = s.WindowChange(h, w)
				}
			}
		}()
	}
	stop := context.AfterFunc(cmd.Context(), func() { conn.Close() })
	defer stop()
	if line == "" {
		err = s.Shell()
	} else {
		err = s.Start(line)
	}
	if err != nil {
		return err
	}
	err = s.Wait()
	var exit *ssh.ExitError
	if errors.As(err, &exit) {
		return exitError{exit.ExitStatus()}
	}
	if errors.Is(err, io.EOF) {
		return nil // it ended well before it had read all its input
	}
	return err
}

// quoteCommandLine makes one shell word of each argument, since SSH sends one string.
func quoteCommandLine(args []string) string {
	if len(args) == 1 {
		return args[0] // a line that the user wrote for the shell
	}
	words := make([]string, len(args))
	for i, a := range args {
		words[i] = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
	}
	return strings.Join(words, " ")
}

func logsCommand() *cobra.Command {
	var follow bool
	var tail int
	cmd := &cobra.Command{
		Use: "logs LEASE", Short: tr("Show what a lease printed, also after it ended"), Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := client(cmd)
			if err != nil {
				return err
			}
			body, err := c.LeaseLogs(cmd.Context(), args[0], follow, tail)
			if err != nil {
				return err
			}
			defer body.Close()
			if wantsJSON(cmd) {
				err = printLines(cmd, body)
			} else {
				_, err = io.Copy(cmd.OutOrStdout(), body)
			}
			if cmd.Context().Err() != nil {
				return nil
			}
			return err
		},
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, tr("go on until it ends"))
	cmd.Flags().IntVar(&tail, "tail", 0, tr("how many of the last lines; 0: all"))
	return cmd
}

// printLines prints each line of a log as a JSON object of its own, as it comes.
func printLines(cmd *cobra.Command, log io.Reader) error {
	out := json.NewEncoder(cmd.OutOrStdout())
	out.SetEscapeHTML(false)
	for in := bufio.NewReader(log); ; {
		line, err := in.ReadString('\n')
		if line != "" {
			if err := out.Encode(map[string]string{"line": strings.TrimSuffix(line, "\n")}); err != nil {
				return err
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func cpCommand() *cobra.Command {
	return &cobra.Command{
		Use: "cp FROM TO", Short: tr("Copy files between here and LEASE:PATH"), Args: cobra.ExactArgs(2),
		Example: `  suanli cp data.tar lab:/root/
  suanli cp lab:/root/model.pt .`,
		RunE: func(cmd *cobra.Command, args []string) error {
			fromLease, from, fromRemote := remotePath(args[0])
			toLease, to, toRemote := remotePath(args[1])
			if fromRemote == toRemote {
				return usageError{errors.New(tr("exactly one of FROM and TO is LEASE:PATH"))}
			}
			conn, err := enter(cmd, fromLease+toLease)
			if err != nil {
				return err
			}
			defer conn.Close()
			files, err := sftp.NewClient(conn, sftp.UseConcurrentWrites(true))
			if err != nil {
				return err
			}
			defer files.Close()
			var n copied
			if toRemote {
				n, err = upload(cmd, files, from, to)
			} else {
				n, err = download(cmd, files, from, to)
			}
			if err != nil {
				return err
			}
			return done(cmd, n, "copied %d files, %d bytes", n.Files, n.Bytes)
		},
	}
}

// remotePath splits LEASE:PATH; a path with a slash before the colon is local.
func remotePath(arg string) (lease, file string, remote bool) {
	lease, file, ok := strings.Cut(arg, ":")
	if !ok || strings.Contains(lease, "/") {
		return "", arg, false
	}
	if file == "" {
		file = "."
	}
	return lease, file, true
}

// copied counts what a copy has moved.
type copied struct {
	Files int   `json:"files"`
	Bytes int64 `json:"bytes"`
}

func upload(cmd *cobra.Command, files *sftp.Client, from, to string) (n copied, err error) {
	if st, err := files.Stat(to); err == nil && st.IsDir() {
		to = path.Join(to, filepath.Base(from))
	}
	return n, filepath.Walk(from, func(name string, info os.FileInfo, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, name)
		if err != nil {
			return err
		}
		target := path.Join(to, filepath.ToSlash(rel))
		switch {
		case info.IsDir():
			return files.MkdirAll(target)
		case !info.Mode().IsRegular():
			warn(cmd, "skipped %s: not a regular file", name)
			return nil
		}
		in, err := os.Open(name)
		if err != nil {
			return err
		}
		defer in.Close()
		out, err := files.Create(target)
		if err != nil {
			return fmt.Errorf("%s: %w", target, err)
		}
		sent, err := out.ReadFrom(in)
		if err != nil {
			out.Close()
			return fmt.Errorf("%s: %w", target, err)
		}
		n.Files, n.Bytes = n.Files+1, n.Bytes+sent
		if err := out.Close(); err != nil {
			return fmt.Errorf("%s: %w", target, err)
		}
		return files.Chmod(target, info.Mode().Perm())
	})
}

func download(cmd *cobra.Command, files *sftp.Client, from, to string) (n copied, err error) {
	if st, err := os.Stat(to); err == nil && st.IsDir() {
		to = filepath.Join(to, path.Base(from))
	}
	for w := files.Walk(from); w.Step(); {
		if err := w.Err(); err != nil {
			return n, fmt.Errorf("%s: %w", w.Path(), err)
		}
		rel := strings.TrimPrefix(strings.TrimPrefix(w.Path(), from), "/")
		target := filepath.Join(to, filepath.FromSlash(rel))
		// A hostile instance may name files as it likes.
		if within, err := filepath.Rel(to, target); err != nil || strings.HasPrefix(within, "..") {
			return n, errors.New(tr("the instance offers a file outside of what was asked: %q", w.Path()))
		}
		switch info := w.Stat(); {
		case info.IsDir():
			if err := os.MkdirAll(target, 0o755); err != nil {
				return n, err
			}
		case info.Mode().IsRegular():
			got, err := fetchFile(files, w.Path(), target, info.Mode().Perm())
			if err != nil {
				return n, err
			}
			n.Files, n.Bytes = n.Files+1, n.Bytes+got
		default:
			warn(cmd, "skipped %s: not a regular file", w.Path())
		}
	}
	return n, nil
}

func fetchFile(files *sftp.Client, from, to string, mode os.FileMode) (int64, error) {
	in, err := files.Open(from)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", from, err)
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, mode)
	if err != nil {
		return 0, err
	}
	n, err := in.WriteTo(out)
	if err != nil {
		out.Close()
		return 0, fmt.Errorf("%s: %w", from, err)
	}
	return n, out.Close()
}

func forwardCommand() *cobra.Command {
	var bind string
	cmd := &cobra.Command{
		Use: "port-forward LEASE [LOCAL:]REMOTE", Short: tr("Reach a port of a lease on this machine"), Args: cobra.ExactArgs(2),
		Example: `  suanli port-forward lab 8000
  suanli port-forward lab 9000:8000`,
		RunE: func(cmd *cobra.Command, args []string) error {
			local, remote, ok := strings.Cut(args[1], ":")
			if !ok {
				remote = local
			}
			port, err := strconv.Atoi(remote)
			if err != nil || port < 1 || port > 65535 {
				return usageError{errors.New(tr("%q is not a port", remote))}
			}
			conn, err := enter(cmd, args[0])
			if err != nil {
				return err
			}
			defer conn.Close()
			l, err := net.Listen("tcp", net.JoinHostPort(bind, local))
			if err != nil {
				return err
			}
			defer l.Close()
			where := map[string]any{"address": l.Addr().String(), "lease": args[0], "port": port}
			if err := done(cmd, where, "%s leads to port %d of %s; end with Ctrl-C", l.Addr(), port, args[0]); err != nil {
				return err
			}
			context.AfterFunc(cmd.Context(), func() { l.Close() })
			go func() { _ = conn.Wait(); l.Close() }()
			for {
				in, err := l.Accept()
				if cmd.Context().Err() != nil {
					return nil
				}
				if err != nil {
					return errors.New(tr("the connection to the lease was lost"))
				}
				go func() {
					defer in.Close()
					out, err := conn.Dial("tcp", net.JoinHostPort("127.0.0.1", remote))
					if err != nil {
						fmt.Fprintln(cmd.ErrOrStderr(), tr("suanli: %s", err))
						return
					}
					defer out.Close()
					go func() { _, _ = io.Copy(out, in); _ = out.(interface{ CloseWrite() error }).CloseWrite() }()
					_, _ = io.Copy(in, out)
				}()
			}
		},
	}
	cmd.Flags().StringVar(&bind, "bind", "127.0.0.1", tr("local address to listen on"))
	return cmd
}

func topCommand() *cobra.Command {
	var once bool
	cmd := &cobra.Command{
		Use: "top", Short: tr("Show what running leases use, as it changes"), Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := client(cmd)
			if err != nil {
				return err
			}
			tick := time.NewTicker(2 * time.Second)
			defer tick.Stop()
			for {
				p, err := c.Leases(cmd.Context(), "running", false, "", 100)
				if err != nil {
					return err
				}
				if wantsJSON(cmd) {
					return printJSON(cmd, p.Items)
				}
				if !once && terminalWidth(cmd.OutOrStdout()) > 0 {
					fmt.Fprint(cmd.OutOrStdout(), "\x1b[H\x1b[2J") // to the top of an empty screen
				}
				t := newTable(tr("NAME"), "GPU %", "CPU %", tr("MEMORY MiB"), tr("DISK MiB"), tr("SENT MB"), tr("SESSIONS"))
				for _, l := range p.Items {
					u := l.Usage
					if u == nil {
						u = &api.LeaseUsage{}
					}
					t.add(l.Name+mark(l.Simulated), u.GPUPercent, u.CPUPercent, fmt.Sprintf("%d/%d", u.MemoryUsedMiB, l.MemoryMiB),
						fmt.Sprintf("%d/%d", u.DiskUsedMiB, l.DiskGiB<<10), u.EgressBytes/1e6, u.Sessions)
				}
				t.print(cmd.OutOrStdout())
				if once {
					return nil
				}
				select {
				case <-cmd.Context().Done():
					return nil
				case <-tick.C:
				}
			}
		},
	}
	cmd.Flags().BoolVar(&once, "once", false, tr("print once and end"))
	return cmd
}

func openCommand() *cobra.Command {
	var port int
	var lasts time.Duration
	var revoke bool
	cmd := &cobra.Command{
		Use: "url LEASE", Short: tr("Show the addresses of a lease's ports, secrets included"), Args: cobra.ExactArgs(1),
		Long: tr("Show the addresses of a lease's ports, secrets included.\n\nEach address opens its own port, to whoever has it, as long as the lease lives. With --port and --expires one is made that ends by itself; --revoke ends those that were given out."),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := client(cmd)
			if err != nil {
				return err
			}
			switch {
			case revoke && lasts != 0:
				return usageError{errors.New(tr("--revoke and --expires do not go together"))}
			case revoke:
				if err := c.RevokeLeaseLinks(cmd.Context(), args[0], port); err != nil {
					return err
				}
				if wantsJSON(cmd) {
					return printJSON(cmd, map[string]any{"revoked": true, "port": port})
				}
				fmt.Fprintln(cmd.OutOrStdout(), tr("The links that were given out end within seconds; suanli url shows the new ones."))
				return nil
			case port != 0:
				l, err := c.CreateLeaseLink(cmd.Context(), args[0], api.LeaseLinkCreate{Port: port, ExpiresInSeconds: int64(lasts / time.Second)})
				if err != nil {
					return err
				}
				if wantsJSON(cmd) {
					return printJSON(cmd, l)
				}
				fmt.Fprintln(cmd.OutOrStdout(), l.URL)
				return nil
			case lasts != 0:
				return usageError{errors.New(tr("--expires is for one port; give it with --port"))}
			}
			a, err := c.LeaseAccess(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if wantsJSON(cmd) {
				return printJSON(cmd, a)
			}
			t := newTable(tr("PORT"), tr("ADDRESS"))
			t.add("SSH", fmt.Sprintf("ssh -p %d %s@%s", a.SSHPort, a.SSHUser, a.SSHHost))
			for _, port := range slices.SortedFunc(maps.Keys(a.URLs), func(x, y string) int { return cmp.Or(cmp.Compare(len(x), len(y)), cmp.Compare(x, y)) }) {
				t.add(port, a.URLs[port])
			}
			t.print(cmd.OutOrStdout())
			if len(a.Environment) > 0 {
				// The secrets that a template had made for this lease are among them.
				fmt.Fprintln(cmd.OutOrStdout())
				env := newTable(tr("VARIABLE"), tr("VALUE"))
				for _, k := range slices.Sorted(maps.Keys(a.Environment)) {
					env.add(k, a.Environment[k])
				}
				env.print(cmd.OutOrStdout())
			}
			return nil
		},
	}
	cmd.Flags().IntVar(&port, "port", 0, tr("a link to this port only, for others"))
	cmd.Flags().DurationVar(&lasts, "expires", 0, tr("with --port: after how long the link ends, as 24h (default: with the lease)"))
	cmd.Flags().BoolVar(&revoke, "revoke", false, tr("end the links that were given out, with --port those to one port"))
	return cmd
}
