package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"suanli.dev/api"
)

// demoDeposit is what the guided rental starts with, in the account's currency.
const demoDeposit = "25.00"

func demoCommand() *cobra.Command {
	var passwordFile, email, script string
	cmd := &cobra.Command{
		Use: "demo URL", Short: tr("A guided first rental on a running cloud: search, quote, rent, work, stop, bill"), Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			d := &demo{cmd: cmd, url: args[0], script: script}
			if !wantsJSON(cmd) {
				return d.run(cmd.Context(), email, passwordFile)
			}
			// What it tells on the way goes to the side; the bill is the result.
			out := cmd.OutOrStdout()
			cmd.SetOut(cmd.ErrOrStderr())
			err := d.run(cmd.Context(), email, passwordFile)
			cmd.SetOut(out)
			if err != nil {
				return err
			}
			return printJSON(cmd, d.bill)
		},
	}
	cmd.Flags().StringVar(&email, "email", "admin@localhost", tr("e-mail address of an operator"))
	cmd.Flags().StringVar(&passwordFile, "password-file", "", tr("file with the operator's password"))
	cmd.Flags().StringVar(&script, "cuda-script", "", tr("training script for a real GPU; its image is the pytorch template's"))
	return cmd
}

// demo is a renter's first hour in a minute.
type demo struct {
	cmd    *cobra.Command
	url    string
	script string
	c      *api.Client
	step   int
	bill   *api.Bill
}

func (d *demo) next(english string, args ...any) {
	d.step++
	fmt.Fprintf(d.cmd.OutOrStdout(), "\n[%d/9] %s\n", d.step, tr(english, args...))
}

func (d *demo) run(ctx context.Context, email, passwordFile string) error {
	d.next("Sign in, and put money in")
	if err := d.signIn(ctx, email, passwordFile); err != nil {
		return err
	}

	d.next("Search the market (suanli search)")
	offer, err := d.search(ctx)
	if err != nil {
		return err
	}

	d.next("Freeze the whole price (suanli quote)")
	q := api.QuoteRequest{OfferID: offer.ID, Template: "digits", RunSeconds: 3600}
	command := []string{"sleep", "86400"}
	train := "python3 /opt/demo/train.py"
	if !offer.Simulated && offer.GPUCount > 0 && d.script != "" {
		q.Template, train = "pytorch", "pip install -q scikit-learn && python3 /tmp/train.py"
	}
	quote, err := d.c.CreateQuote(ctx, q)
	if err != nil {
		return err
	}
	printQuote(d.cmd, quote)

	d.next("Rent it (suanli rent)")
	began := time.Now()
	l, err := d.c.CreateLease(ctx, api.LeaseCreate{QuoteID: quote.ID, Labels: map[string]string{"demo": "yes"}, Command: command})
	if err != nil {
		return err
	}
	// Whatever goes wrong from here on must not leave it running and charged.
	ended := false
	defer func() {
		if !ended {
			d.abandon(l.ID)
		}
	}()
	if l, err = waitFor(d.cmd, d.c, l.ID, "running"); err != nil {
		return err
	}
	say(d.cmd, "running %.1f s after it was asked for", time.Since(began).Seconds())

	d.next("Do real work inside (suanli exec): train a classifier on handwritten digits")
	if q.Template == "pytorch" {
		if err := d.copyIn(l.ID, d.script, "/tmp/train.py"); err != nil {
			return err
		}
	}
	if offer.GPUCount > 0 {
		if err := d.inside(l.ID, "nvidia-smi -L"); err != nil {
			return err
		}
	}
	if err := d.inside(l.ID, train); err != nil {
		return err
	}

	d.next("Enter it by SSH (suanli ssh)")
	if err := d.inside(l.ID, "echo \"hello from $(uname -n): $(nproc) CPUs, $(df -h / | tail -1 | tr -s ' ' | cut -d' ' -f4) of disk free\""); err != nil {
		return err
	}

	d.next("Stop it; its disk stays (suanli stop), then end it (suanli end)")
	if _, err := d.c.StopLease(ctx, l.ID); err != nil {
		return err
	}
	if l, err = waitFor(d.cmd, d.c, l.ID, "stopped"); err != nil {
		return err
	}
	if _, err := d.c.EndLease(ctx, l.ID); err != nil {
		return err
	}
	ended = true
	if l, err = waitUntilOver(d.cmd, d.c, l.ID); err != nil {
		return err
	}

	d.next("Read the bill (suanli bill)")
	bill, err := d.c.Bill(ctx, l.ID)
	if err != nil {
		return err
	}
	d.bill = bill
	printBill(d.cmd, bill)
	books, err := d.c.VerifyLedger(ctx)
	if err != nil {
		return err
	}
	if !books.OK {
		return errors.New(tr("the books are not right"))
	}
	say(d.cmd, "The books balance: %d transfers in %d accounts sum to zero.", books.Transfers, books.Accounts)

	d.next("Go on by yourself")
	say(d.cmd, "API and its reference: %s and %s/docs", d.url, d.url)
	say(d.cmd, "Sign-in: %s, password in %s", email, passwordFile)
	say(d.cmd, "Try: suanli search --fields; suanli rent --template digits --where 'gpu_count = 1'; suanli ps; suanli host list; suanli top")
	return nil
}

func (d *demo) signIn(ctx context.Context, email, passwordFile string) error {
	password, err := readPassword(d.cmd, passwordFile)
	if err != nil {
		return err
	}
	s, err := api.New(d.url, "").SignIn(ctx, api.SignIn{Email: email, Password: password})
	if err != nil {
		return err
	}
	if err := writeSignIn(signIn{Server: d.url, Token: s.Token}); err != nil {
		return err
	}
	d.c = api.New(d.url, s.Token)
	if err := registerKey(d.cmd, d.c); err != nil {
		return err
	}
	b, err := d.c.Balance(ctx)
	if err != nil {
		return err
	}
	floor, err := api.ParseAmount("5.00")
	if err != nil {
		return err
	}
	if b.Available < floor {
		amount, err := api.ParseAmount(demoDeposit)
		if err != nil {
			return err
		}
		if _, err := d.c.Deposit(ctx, api.Deposit{AccountID: s.AccountID, Amount: amount, Reference: "guided first rental, " + time.Now().UTC().Format(time.RFC3339Nano)}); err != nil {
			return err
		}
		say(d.cmd, "entered a deposit of %s %s", amount.Display(), b.Currency)
		if b, err = d.c.Balance(ctx); err != nil {
			return err
		}
	}
	say(d.cmd, "signed in as %s; available: %s %s", email, b.Available.Display(), b.Currency)
	return nil
}

// search waits for this machine's host to pass its self-test, then picks the
// cheapest offer with a GPU, a real one before a simulated one.
func (d *demo) search(ctx context.Context) (*api.Offer, error) {
	limit := time.Now().Add(3 * time.Minute)
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	last := ""
	for {
		for _, where := range []string{"gpu_count = 1 and not simulated", "gpu_count = 1", ""} {
			if where == "" && time.Now().Before(limit.Add(-time.Minute)) {
				continue // a host without GPUs is the last resort
			}
			p, err := d.c.Offers(ctx, api.OfferQuery{Where: where, Limit: 5})
			if err != nil {
				return nil, err
			}
			if len(p.Items) == 0 {
				continue
			}
			t := newTable(tr("OFFER"), tr("GPU"), "CPU", tr("MEMORY GiB"), tr("PER HOUR"))
			for _, o := range p.Items {
				t.add(o.ID, fmt.Sprintf("%d × %s%s", o.GPUCount, o.GPUModel, mark(o.Simulated)), cpus(o.CPUMillis), o.MemoryMiB>>10, o.Price.PerHour.Display()+" "+o.Price.Currency)
			}
			t.print(d.cmd.OutOrStdout())
			return &p.Items[0], nil
		}
		hosts, err := d.c.Hosts(ctx)
		if err != nil {
			return nil, err
		}
		line := tr("waiting for a host to join")
		if len(hosts) > 0 {
			line = tr("host %s is %s %s", hosts[0].Name, hosts[0].State, hosts[0].Reason)
			if st := hosts[0].SelfTest; st != nil && !st.Passed && len(st.Checks) > 0 {
				for _, k := range st.Checks {
					if !k.Passed && !k.Skipped {
						line += "; " + k.Name + ": " + k.Detail
					}
				}
			}
		}
		if line != last {
			say(d.cmd, "  %s", line)
			last = line
		}
		if time.Now().After(limit) {
			return nil, errors.New(tr("no host is on the market after three minutes; look at suanli host list and the cloud's log"))
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-tick.C:
		}
	}
}

// inside runs a shell line in the lease, as a renter's SSH client would.
func (d *demo) inside(lease, line string) error {
	conn, err := enter(d.cmd, lease)
	if err != nil {
		return err
	}
	defer conn.Close()
	s, err := conn.NewSession()
	if err != nil {
		return err
	}
	defer s.Close()
	fmt.Fprintf(d.cmd.OutOrStdout(), "  $ %s\n", line)
	out := &indent{w: d.cmd.OutOrStdout(), start: true}
	s.Stdout, s.Stderr = out, out
	return s.Run(line)
}

func (d *demo) copyIn(lease, from, to string) error {
	b, err := os.ReadFile(filepath.Clean(from))
	if err != nil {
		return err
	}
	conn, err := enter(d.cmd, lease)
	if err != nil {
		return err
	}
	defer conn.Close()
	s, err := conn.NewSession()
	if err != nil {
		return err
	}
	defer s.Close()
	s.Stdin = bytes.NewReader(b)
	return s.Run("cat > " + to)
}

// abandon ends the lease of a demo that failed, with its own short time, since
// the demo's may be over.
func (d *demo) abandon(lease string) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if _, err := d.c.EndLease(ctx, lease); err != nil {
		fmt.Fprintln(d.cmd.ErrOrStderr(), tr("the lease %s may still be there: %s; end it with suanli end %s", lease, err, lease))
		return
	}
	fmt.Fprintln(d.cmd.ErrOrStderr(), tr("the lease %s was ended, so that nothing is left running", lease))
}

// waitUntilOver waits for a lease's end.
func waitUntilOver(cmd *cobra.Command, c *api.Client, id string) (*api.Lease, error) {
	return waitFor(cmd, c, id, "ended", "failed")
}

// indent sets lines off from the guide's own.
type indent struct {
	w     io.Writer
	start bool
}

func (i *indent) Write(p []byte) (int, error) {
	for _, part := range strings.SplitAfter(string(p), "\n") {
		if part == "" {
			continue
		}
		if i.start {
			part = "    " + part
		}
		i.start = strings.HasSuffix(part, "\n")
		if _, err := io.WriteString(i.w, part); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}
