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
//	install FILE  copy this binary, for the container of another image
//	report        print what init says of the instance
//	sftp-server   serve SFTP on standard input and output
//	interruption  tell programs inside that the instance will be interrupted
//	nvidia-smi …  show the simulated GPUs
//	ranks …       start, ask after and end the processes of a run on a cluster
//	allreduce …   measure the network between the nodes of a cluster
func Main(args []string) int {
	if len(args) == 0 {
		fmt.Fprintln(os.Stderr, "suanli instance: want init, install, report, sftp-server, interruption, ranks, allreduce or nvidia-smi; agents call it inside containers")
		return 2
	}
	switch args[0] {
	case "init":
		return runInit(protocol.InstanceConfig, protocol.InstanceRunDir)
	case "install":
		return report(install(args[1:]))
	case "report":
		return report(printReport(protocol.InstanceRunDir, os.Stdout))
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
	case "ranks":
		return report(ranksMain(args[1:], os.Stdin, os.Stdout))
	case "allreduce":
		return report(allReduce(args[1:], os.Stdout))
	case "nvidia-smi":
		return NVIDIASMI(protocol.InstanceGPUs, args[1:], os.Stdout, os.Stderr)
	}
	fmt.Fprintf(os.Stderr, "suanli instance: %q is none of init, install, report, sftp-server, interruption, ranks, allreduce, nvidia-smi\n", args[0])
	return 2
}

// report says what went wrong and returns the exit code.
func report(err error) int {
	if err != nil {
		fmt.Fprintln(os.Stderr, "suanli:", err)
		return 1
	}
	return 0
}
