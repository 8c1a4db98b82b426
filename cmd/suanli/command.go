package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"suanli.dev/api"
)

// listing is a command that lists things of the cloud, as JSON or as a table.
func listing[T any](use, short string, read func(context.Context, *api.Client) ([]T, error), header []string, row func(T) []any) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := client(cmd)
			if err != nil {
				return err
			}
			list, err := read(cmd.Context(), c)
			if err != nil {
				return err
			}
			if wantsJSON(cmd) {
				return printJSON(cmd, list)
			}
			t := newTable(header...)
			for _, v := range list {
				t.add(row(v)...)
			}
			t.print(cmd.OutOrStdout())
			return nil
		},
	}
}

// showing is a command that reads something of the cloud and prints it, as JSON or
// for people.
func showing[T any](use, short string, args cobra.PositionalArgs, read func(*cobra.Command, *api.Client, []string) (T, error), show func(*cobra.Command, T)) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short, Args: args,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := client(cmd)
			if err != nil {
				return err
			}
			v, err := read(cmd, c, args)
			if err != nil {
				return err
			}
			if wantsJSON(cmd) {
				return printJSON(cmd, v)
			}
			show(cmd, v)
			return nil
		},
	}
}

// joinToken is a command that makes a one-time token for a machine to join with.
func joinToken(short string, create func(ctx context.Context, c *api.Client, validSeconds int64) (*api.JoinToken, error)) *cobra.Command {
	var valid time.Duration
	cmd := &cobra.Command{
		Use: "token", Short: short, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := client(cmd)
			if err != nil {
				return err
			}
			t, err := create(cmd.Context(), c, int64(valid/time.Second))
			if err != nil {
				return err
			}
			if wantsJSON(cmd) {
				return printJSON(cmd, t)
			}
			fmt.Fprintln(cmd.OutOrStdout(), t.Token)
			return nil
		},
	}
	cmd.Flags().DurationVar(&valid, "valid-for", time.Hour, tr("how long the token can be used"))
	return cmd
}

// removal is a command that takes away what its argument names, and then says so.
func removal(use, short string, find func(context.Context, *api.Client, string) (string, error), remove func(*api.Client, context.Context, string) error, said func(id string) string) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short, Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := client(cmd)
			if err != nil {
				return err
			}
			id, err := find(cmd.Context(), c, args[0])
			if err != nil {
				return err
			}
			if err := remove(c, cmd.Context(), id); err != nil {
				return err
			}
			if wantsJSON(cmd) {
				return printJSON(cmd, map[string]string{"id": id})
			}
			fmt.Fprintln(cmd.OutOrStdout(), said(id))
			return nil
		},
	}
}

// itself finds what has no name but its identifier.
func itself(_ context.Context, _ *api.Client, id string) (string, error) { return id, nil }
