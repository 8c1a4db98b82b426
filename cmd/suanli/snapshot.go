package main

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"suanli.dev/api"
)

func snapshotCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "snapshot", Short: tr("Keep copies of volumes outside of their hosts")}
	cmd.AddCommand(snapshotCreateCommand(), snapshotListCommand(),
		showing("show SNAPSHOT", tr("Show a snapshot"), cobra.ExactArgs(1),
			func(cmd *cobra.Command, c *api.Client, args []string) (*api.Snapshot, error) {
				return c.Snapshot(cmd.Context(), args[0])
			}, printSnapshot),
		showing("rm SNAPSHOT", tr("Remove a snapshot"), cobra.ExactArgs(1),
			func(cmd *cobra.Command, c *api.Client, args []string) (*api.Snapshot, error) {
				return c.DeleteSnapshot(cmd.Context(), args[0])
			},
			func(cmd *cobra.Command, x *api.Snapshot) {
				say(cmd, "Snapshot %s (%s) is removed, and costs nothing any more", x.Name, x.ID)
			}))
	return cmd
}

func printSnapshot(cmd *cobra.Command, x *api.Snapshot) {
	say(cmd, "Snapshot %s (%s): %s", x.Name, x.ID, word("snapshot_"+x.State))
	if x.Message != "" {
		say(cmd, "Why: %s (%s)", x.Message, x.Code)
	}
	say(cmd, "Of volume %s with %d GiB, %s stored, for hosts in %s%s", x.VolumeID, x.SizeGiB, mib(x.StoredBytes), x.Region, mark(x.Simulated))
	if x.ReadyAt != nil && x.Currency != "" {
		say(cmd, "A stored GiB costs %s %s a month, the whole of it %s", x.PricePerGiBMonth.Display(), x.Currency, x.PerMonth.Display())
	}
}

func mib(bytes int64) string { return strconv.FormatInt((bytes+1<<20-1)>>20, 10) + " MiB" }

func snapshotCreateCommand() *cobra.Command {
	var noWait bool
	cmd := showing("create VOLUME [NAME]", tr("Copy a volume that no lease is running with"), cobra.RangeArgs(1, 2),
		func(cmd *cobra.Command, c *api.Client, args []string) (*api.Snapshot, error) {
			in := api.SnapshotCreate{}
			if len(args) > 1 {
				in.Name = args[1]
			}
			x, err := c.CreateSnapshot(cmd.Context(), args[0], in)
			if err != nil || noWait {
				return x, err
			}
			return waitForSnapshot(cmd.Context(), c, x)
		}, printSnapshot)
	cmd.Flags().BoolVar(&noWait, "no-wait", false, tr("return at once"))
	return cmd
}

// waitForSnapshot polls a snapshot until it is complete. One that fails is an error with
// the reason.
func waitForSnapshot(ctx context.Context, c *api.Client, x *api.Snapshot) (*api.Snapshot, error) {
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for {
		switch x.State {
		case "copying":
		case "available":
			return x, nil
		default:
			return nil, errors.New(tr("snapshot %s is %s: %s (%s)", x.Name, word("snapshot_"+x.State), x.Message, x.Code))
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-tick.C:
		}
		var err error
		if x, err = c.Snapshot(ctx, x.ID); err != nil {
			return nil, err
		}
	}
}

func snapshotListCommand() *cobra.Command {
	var volume string
	cmd := listing("ls", tr("List your snapshots"), func(ctx context.Context, c *api.Client) ([]api.Snapshot, error) {
		return c.Snapshots(ctx, volume, true)
	},
		[]string{tr("NAME"), tr("STATE"), tr("VOLUME"), tr("STORED"), tr("PER MONTH"), tr("CREATED")},
		func(x api.Snapshot) []any {
			return []any{x.Name, word("snapshot_" + x.State), x.VolumeID, mib(x.StoredBytes), x.PerMonth.Display() + " " + x.Currency, x.CreatedAt.Format(time.DateTime) + mark(x.Simulated)}
		})
	cmd.Flags().StringVar(&volume, "volume", "", tr("only those of this volume"))
	return cmd
}

func volumeCloneCommand() *cobra.Command {
	var in api.VolumeClone
	var noWait bool
	cmd := showing("clone VOLUME [NAME]", tr("Make a second volume with what is in one"), cobra.RangeArgs(1, 2),
		func(cmd *cobra.Command, c *api.Client, args []string) (*api.Volume, error) {
			if len(args) > 1 {
				in.Name = args[1]
			}
			v, err := c.CloneVolume(cmd.Context(), args[0], in)
			if err != nil || noWait {
				return v, err
			}
			return waitForVolume(cmd.Context(), c, v)
		}, printVolume)
	cmd.Flags().StringVar(&in.HostID, "host", "", tr("host of its region to keep it on (default: that of the volume)"))
	cmd.Flags().Int64Var(&in.SizeGiB, "size", 0, tr("size in GiB (default: that of the volume)"))
	cmd.Flags().BoolVar(&noWait, "no-wait", false, tr("return at once"))
	return cmd
}

// movingCommand is a command that puts another volume in the place of one.
func movingCommand(use, short string, args cobra.PositionalArgs, read func(args []string) (api.VolumeMove, error)) *cobra.Command {
	var noWait bool
	cmd := showing(use, short, args,
		func(cmd *cobra.Command, c *api.Client, args []string) (*api.Volume, error) {
			in, err := read(args)
			if err != nil {
				return nil, err
			}
			v, err := c.MoveVolume(cmd.Context(), args[0], in)
			if err != nil || noWait {
				return v, err
			}
			return waitForVolume(cmd.Context(), c, v)
		}, printVolume)
	cmd.Flags().BoolVar(&noWait, "no-wait", false, tr("return at once"))
	return cmd
}

func volumeMoveCommand() *cobra.Command {
	var in api.VolumeMove
	cmd := movingCommand("move VOLUME", tr("Put a volume on another host of its region"), cobra.ExactArgs(1), func([]string) (api.VolumeMove, error) {
		if in.HostID == "" {
			return in, usageError{errors.New(tr("give the host to move it to: --host"))}
		}
		return in, nil
	})
	cmd.Flags().StringVar(&in.HostID, "host", "", tr("host to move it to"))
	return cmd
}

func volumeResizeCommand() *cobra.Command {
	return movingCommand("resize VOLUME GIB", tr("Make a volume larger"), cobra.ExactArgs(2), func(args []string) (in api.VolumeMove, err error) {
		if in.SizeGiB, err = strconv.ParseInt(args[1], 10, 64); err != nil || in.SizeGiB < 1 {
			return in, usageError{errors.New(tr("a size of %q: want GiB, such as 400", args[1]))}
		}
		return in, nil
	})
}

func volumeBackupCommand() *cobra.Command {
	var in api.VolumeBackup
	var off bool
	cmd := showing("backup VOLUME", tr("Have a volume copied every so many hours"), cobra.ExactArgs(1),
		func(cmd *cobra.Command, c *api.Client, args []string) (*api.Volume, error) {
			if off {
				in = api.VolumeBackup{}
			}
			return c.BackUpVolume(cmd.Context(), args[0], in)
		}, printVolume)
	cmd.Flags().Int64Var(&in.EveryHours, "every", 24, tr("hours from one backup to the next"))
	cmd.Flags().Int64Var(&in.Keep, "keep", 7, tr("how many of the last backups are kept"))
	cmd.Flags().BoolVar(&off, "off", false, tr("take no more; those that there are stay"))
	return cmd
}
