package main

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"suanli.dev/api"
)

func volumeCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "volume", Short: tr("Keep data that outlives leases")}
	cmd.AddCommand(volumeCreateCommand(),
		listing("ls", tr("List your volumes"), func(ctx context.Context, c *api.Client) ([]api.Volume, error) { return c.Volumes(ctx, true) },
			[]string{tr("NAME"), tr("STATE"), tr("SIZE"), tr("HOST"), tr("ZONE"), tr("PER MONTH"), tr("LEASES")},
			func(v api.Volume) []any {
				return []any{v.Name, word("volume_" + v.State), strconv.FormatInt(v.SizeGiB, 10) + " GiB", v.HostID, v.Zone + mark(v.Simulated), v.PerMonth.Display() + " " + v.Currency, leasesOf(v)}
			}),
		showing("show VOLUME", tr("Show a volume and who has it"), cobra.ExactArgs(1),
			func(cmd *cobra.Command, c *api.Client, args []string) (*api.Volume, error) {
				return c.Volume(cmd.Context(), args[0])
			}, printVolume),
		volumeAttachCommand(), volumeDetachCommand(), volumeCloneCommand(), volumeMoveCommand(), volumeResizeCommand(), volumeBackupCommand(),
		showing("rm VOLUME", tr("Remove a volume with all that is in it"), cobra.ExactArgs(1),
			func(cmd *cobra.Command, c *api.Client, args []string) (*api.Volume, error) {
				return c.DeleteVolume(cmd.Context(), args[0])
			},
			func(cmd *cobra.Command, v *api.Volume) {
				say(cmd, "Volume %s (%s) is removed, and costs nothing any more", v.Name, v.ID)
			}))
	return cmd
}

func leasesOf(v api.Volume) string {
	out := make([]string, len(v.Attachments))
	for i, a := range v.Attachments {
		out[i] = a.LeaseID + ":" + a.Path
		if a.ReadOnly {
			out[i] += ":ro"
		}
	}
	return strings.Join(out, " ")
}

func printVolume(cmd *cobra.Command, v *api.Volume) {
	say(cmd, "Volume %s (%s): %s", v.Name, v.ID, word("volume_"+v.State))
	if v.Message != "" {
		say(cmd, "Why: %s (%s)", v.Message, v.Code)
	}
	say(cmd, "%d GiB on host %s, %s/%s%s", v.SizeGiB, v.HostID, v.Region, v.Zone, mark(v.Simulated))
	say(cmd, "A GiB costs %s %s a month, the whole of it %s, in use or not", v.PricePerGiBMonth.Display(), v.Currency, v.PerMonth.Display())
	if v.Replaces != "" {
		say(cmd, "It is to take the place of %s, which is there until then", v.Replaces)
	}
	if v.MovingTo != "" && v.State == "available" {
		say(cmd, "It is being moved or made larger, as %s", v.MovingTo)
	}
	if b := v.Backup; b != nil && b.NextAt != nil {
		say(cmd, "Backed up every %d hours, the last %d are kept; next: %s", b.EveryHours, b.Keep, b.NextAt.Format(time.RFC3339))
	}
	for _, a := range v.Attachments {
		if a.ReadOnly {
			say(cmd, "Lease %s reads it at %s", a.LeaseID, a.Path)
		} else {
			say(cmd, "Lease %s has it at %s", a.LeaseID, a.Path)
		}
	}
}

func volumeCreateCommand() *cobra.Command {
	var in api.VolumeCreate
	var near, agreed string
	cmd := showing("create [NAME]", tr("Make a volume on the host of an offer or a lease"), cobra.MaximumNArgs(1),
		func(cmd *cobra.Command, c *api.Client, args []string) (*api.Volume, error) {
			ctx := cmd.Context()
			if len(args) > 0 {
				in.Name = args[0]
			}
			if in.Snapshot != "" && !cmd.Flags().Changed("size") {
				in.SizeGiB = 0 // that of the snapshot
			}
			switch {
			case in.HostID != "" && near != "":
				return nil, usageError{errors.New(tr("give one of --host and --lease"))}
			case near != "":
				l, err := c.Lease(ctx, near)
				if err != nil {
					return nil, err
				}
				in.HostID = l.HostID
			case in.HostID == "":
				query := api.OfferQuery{DiskGiB: in.SizeGiB, Limit: 1}
				if in.Snapshot != "" {
					x, err := c.Snapshot(ctx, in.Snapshot)
					if err != nil {
						return nil, err
					}
					query.DiskGiB, query.Where = max(in.SizeGiB, x.SizeGiB), "region = '"+x.Region+"'"
				}
				found, err := c.Offers(ctx, query)
				if err != nil {
					return nil, err
				}
				if len(found.Items) == 0 {
					return nil, errors.New(tr("nothing on the market has so much disk; ask for less, or name a host"))
				}
				in.HostID = found.Items[0].HostID
			}
			if agreed != "" {
				rate, err := api.ParseRate(agreed)
				if err != nil {
					return nil, usageError{err}
				}
				in.AgreedPerGiBMonth = &rate
			}
			v, err := c.CreateVolume(ctx, in)
			if err != nil {
				return nil, err
			}
			return waitForVolume(ctx, c, v)
		}, printVolume)
	cmd.Example = `  suanli volume create data --size 200 --lease lab
  suanli volume create --size 50 --host ho-…`
	f := cmd.Flags()
	f.Int64Var(&in.SizeGiB, "size", 10, tr("size in GiB"))
	f.StringVar(&in.Snapshot, "snapshot", "", tr("snapshot that it is made of, on a host of its region"))
	f.StringVar(&in.HostID, "host", "", tr("host to keep it on (default: that of the cheapest offer with room)"))
	f.StringVar(&near, "lease", "", tr("keep it on the host of this lease"))
	f.StringVar(&agreed, "max-price", "", tr("the most that a GiB may cost a month"))
	return cmd
}

// waitForVolume polls a volume until its host has made it. One that it cannot make is
// an error with the reason.
func waitForVolume(ctx context.Context, c *api.Client, v *api.Volume) (*api.Volume, error) {
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	for {
		switch v.State {
		case "creating":
		case "available":
			return v, nil
		default:
			return nil, errors.New(tr("volume %s is %s: %s (%s)", v.Name, word("volume_"+v.State), v.Message, v.Code))
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-tick.C:
		}
		var err error
		if v, err = c.Volume(ctx, v.ID); err != nil {
			return nil, err
		}
	}
}

func volumeAttachCommand() *cobra.Command {
	var in api.VolumeAttach
	cmd := showing("attach VOLUME LEASE", tr("Give a volume to a lease that is stopped"), cobra.ExactArgs(2),
		func(cmd *cobra.Command, c *api.Client, args []string) (*api.Volume, error) {
			in.LeaseID = args[1]
			return c.AttachVolume(cmd.Context(), args[0], in)
		},
		func(cmd *cobra.Command, v *api.Volume) {
			printVolume(cmd, v)
			say(cmd, "It is mounted when the lease starts: suanli start %s", in.LeaseID)
		})
	cmd.Flags().StringVar(&in.Path, "path", "/data", tr("where it is inside of the instance"))
	cmd.Flags().BoolVar(&in.ReadOnly, "read-only", false, tr("the instance cannot write to it"))
	return cmd
}

func volumeDetachCommand() *cobra.Command {
	var in api.VolumeDetach
	cmd := showing("detach VOLUME LEASE", tr("Take a volume from a lease that is stopped"), cobra.ExactArgs(2),
		func(cmd *cobra.Command, c *api.Client, args []string) (*api.Volume, error) {
			in.LeaseID = args[1]
			return c.DetachVolume(cmd.Context(), args[0], in)
		}, printVolume)
	cmd.Flags().BoolVar(&in.Force, "force", false, tr("also from a lease that is over, before its host has confirmed that nothing is left of it"))
	return cmd
}

// mounts reads --volume NAME:/path[:ro].
func mounts(list []string) ([]api.VolumeMount, error) {
	var out []api.VolumeMount
	for _, text := range list {
		parts := strings.Split(text, ":")
		m := api.VolumeMount{Volume: parts[0]}
		ok := len(parts) > 1 && parts[0] != ""
		if ok {
			m.Path = parts[1]
		}
		if len(parts) == 3 {
			m.ReadOnly = parts[2] == "ro"
			ok = ok && (m.ReadOnly || parts[2] == "rw")
		}
		if !ok || len(parts) > 3 || !strings.HasPrefix(m.Path, "/") {
			return nil, usageError{errors.New(tr("--volume %q: want NAME:/path, or NAME:/path:ro", text))}
		}
		out = append(out, m)
	}
	return out, nil
}

// whereVolumes returns the expression that finds offers on the host of the volumes: a
// volume is on one host, and leases that have it run there.
func whereVolumes(ctx context.Context, c *api.Client, list []string) (string, error) {
	found, err := mounts(list)
	if err != nil || len(found) == 0 {
		return "", err
	}
	host := ""
	for _, m := range found {
		v, err := c.Volume(ctx, m.Volume)
		if err != nil {
			return "", err
		}
		if host != "" && host != v.HostID {
			return "", errors.New(tr("the volumes are on different hosts, so that no lease can have all of them"))
		}
		host = v.HostID
	}
	return "host_id = '" + host + "'", nil
}
