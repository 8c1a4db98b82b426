package instance

import (
	"fmt"
	"os"

	"suanli.dev/internal/protocol"
)

// Main is the command line that agents put into containers: "suanli instance"
// and these arguments. It returns the exit code.
//
//	init          be the container's first process
//	sftp-server   serve SFTP on standard input and output
//	interruption  tell programs inside that the instance will be interrupted
//	nvidia-smi …  show the simulated GPUs
func Main(args []string) int {
	if len(args) == 0 {
		fmt.Fprintln(os.Stderr, "suanli instance: want init, sftp-server, interruption or nvidia-smi; agents call it inside containers")
		return 2
	}
	switch args[0] {
	case "init":
		return runInit(protocol.InstanceConfig, protocol.InstanceRunDir)
	case "sftp-server":
		return serveSFTP()
	case "interruption":
		text := ""
		if len(args) > 1 {
			text = args[1]
		}
		fresh, code := tellInterruption(protocol.InstanceInterruption, text, os.Stderr)
		if fresh {
			actOnNotice(protocol.InstanceConfig, text, os.Stderr)
		}
		return code
	case "nvidia-smi":
		return NVIDIASMI(protocol.InstanceGPUs, args[1:], os.Stdout, os.Stderr)
	}
	fmt.Fprintf(os.Stderr, "suanli instance: %q is none of init, sftp-server, interruption, nvidia-smi\n", args[0])
	return 2
}
