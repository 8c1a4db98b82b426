package main

import "github.com/spf13/cobra"

// all returns every command there is.
func all(root *cobra.Command) []*cobra.Command {
	var list []*cobra.Command
	walk(root, func(c *cobra.Command) { list = append(list, c) })
	return list
}
