package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"suanli.dev/api"
)

func trialCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "trial", Short: tr("Try the cloud on its operator's account, once")}
	start := showing("start", tr("Start your account's trial"), cobra.NoArgs,
		func(cmd *cobra.Command, c *api.Client, _ []string) (*api.Trial, error) {
			t, err := c.Trial(cmd.Context())
			if err != nil || t.Grant != nil {
				return t, err
			}
			if t.Offered && !t.ContactVerified && t.MailSent {
				if t, err = c.SendTrialCode(cmd.Context()); err == nil {
					say(cmd, "A code was sent to you by mail. Run suanli trial verify CODE, then start again.")
				}
				return t, err
			}
			device, err := trialDevice(cmd, c)
			if err != nil {
				return nil, err
			}
			return c.StartTrial(cmd.Context(), device)
		}, printTrial)
	start.Long = tr("It pays before your balance, for a set time from your first use. It needs an e-mail address that is proven to be yours.")
	cmd.AddCommand(start,
		showing("show", tr("Show what a trial is, and what your account has of it"), cobra.NoArgs,
			func(cmd *cobra.Command, c *api.Client, _ []string) (*api.Trial, error) { return c.Trial(cmd.Context()) }, printTrial),
		showing("verify CODE", tr("Prove your e-mail address by the code that was sent to it"), cobra.ExactArgs(1),
			func(cmd *cobra.Command, c *api.Client, args []string) (*api.Trial, error) {
				if t, err := c.Trial(cmd.Context()); err != nil || t.ContactVerified {
					if err == nil {
						say(cmd, "Your e-mail address is proven already; the code was not needed.")
					}
					return t, err
				}
				return c.VerifyTrialContact(cmd.Context(), args[0])
			}, printTrial),
		showing("confirm ACCOUNT", tr("Verify the contact of an account by hand (operator)"), cobra.ExactArgs(1),
			func(cmd *cobra.Command, c *api.Client, args []string) (*api.Trial, error) {
				return c.ConfirmTrialContact(cmd.Context(), args[0])
			}, printTrial))
	return cmd
}

func printTrial(cmd *cobra.Command, t *api.Trial) {
	if !t.Offered && t.Grant == nil {
		say(cmd, "This cloud has no trials.")
		return
	}
	say(cmd, "A trial is worth %s %s, for %s from its first use.", t.Amount.Display(), t.Currency, time.Duration(t.ValidSeconds)*time.Second)
	if t.MaxConcurrentGPUs > 0 {
		say(cmd, "With nothing else, %d GPUs at once, on demand, and not on hosts of your own.", t.MaxConcurrentGPUs)
	}
	if len(t.EgressPorts) > 0 {
		var ports []string
		for _, p := range t.EgressPorts {
			ports = append(ports, strconv.Itoa(p))
		}
		say(cmd, "Instances reach the ports %s outside only.", strings.Join(ports, ", "))
	}
	switch {
	case t.Grant == nil && !t.ContactVerified:
		say(cmd, "Your contact is not verified yet.")
	case t.Grant == nil:
		say(cmd, "Your contact is verified. Run suanli trial start.")
	case t.Grant.ExpiresAt == nil:
		say(cmd, "Started: %s %s are left; the time begins with your first use.", t.Grant.Left.Display(), t.Grant.Currency)
	default:
		say(cmd, "Started: %s %s are left until %s. Then what it pays for stops.", t.Grant.Left.Display(), t.Grant.Currency, t.Grant.ExpiresAt.Local().Format(time.DateTime))
	}
}

// trialDevice returns the identifier that the cloud has given this client, got at
// first use.
func trialDevice(cmd *cobra.Command, c *api.Client) (string, error) {
	at, err := whereTo(cmd)
	if err != nil {
		return "", err
	}
	dir, err := clientDir()
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "devices.json")
	known := map[string]string{}
	b, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(b, &known)
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", fmt.Errorf("read %s: %w", path, err)
	}
	if known[at.Server] != "" {
		return known[at.Server], nil
	}
	d, err := c.NewTrialDevice(cmd.Context())
	if err != nil {
		return "", err
	}
	known[at.Server] = d.Device
	if b, err = json.Marshal(known); err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	return d.Device, os.WriteFile(path, b, 0o600)
}
