package main

import (
	"cmp"
	"errors"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"suanli.dev/internal/server"
	"suanli.dev/internal/store"
)

func migrateCommand() *cobra.Command {
	var from, to string
	cmd := &cobra.Command{
		Use: "migrate", Short: tr("Copy a stopped cloud to another database: embedded to PostgreSQL, or back"), Args: cobra.NoArgs,
		Long: tr("Every table is copied from one snapshot in one transaction, and read again and compared; the books are proven on both sides. The target must be empty, and gets all or nothing. The source is kept. Keys and images stay in the data folder."),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := settings(cmd)
			if err != nil {
				return err
			}
			from := cmp.Or(from, cfg.DatabaseAddress())
			if to == "" {
				return usageError{errors.New(tr("give --to, the address of the empty database, such as postgres://user@host/suanli"))}
			}
			if from == to {
				return usageError{errors.New(tr("--from and --to are the same database"))}
			}
			var progress func(string, int, int)
			if !wantsJSON(cmd) && terminalWidth(cmd.ErrOrStderr()) > 0 {
				progress = func(table string, done, of int) {
					cmd.PrintErr("\r\033[K" + tr("copying table %d of %d: %s", done+1, of, table))
				}
			}
			m, err := server.Migrate(cmd.Context(), cfg, from, to, newLog(cfg, cmd.ErrOrStderr()), progress)
			if progress != nil {
				cmd.PrintErr("\r\033[K")
			}
			if err != nil {
				return err
			}
			if wantsJSON(cmd) {
				return printJSON(cmd, struct {
					From    string         `json:"from"`
					To      string         `json:"to"`
					Tables  []store.Copied `json:"tables"`
					Rows    int64          `json:"rows"`
					Proven  int            `json:"transfers_proven"`
					Seconds int64          `json:"took_seconds"`
				}{plainAddress(from), plainAddress(to), m.Tables, m.Rows, int(m.After.Transfers), int64(m.Took / time.Second)})
			}
			say(cmd, "%d rows of %d tables are copied and compared, and %d transfers proven on both sides. Set database to the new address and start the cloud; the source is as it was.", m.Rows, len(m.Tables), m.After.Transfers)
			return nil
		},
	}
	cmd.Flags().StringVar(&from, "from", "", tr("address of the cloud's database (default: that of the configuration)"))
	cmd.Flags().StringVar(&to, "to", "", tr("address of an empty database"))
	settingFlags(cmd)
	return cmd
}

// plainAddress is an address without its password.
func plainAddress(address string) string {
	if u, err := url.Parse(address); err == nil && u.User != nil {
		return u.Redacted()
	}
	return address
}
