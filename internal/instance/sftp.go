package instance

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/pkg/sftp"
)

// serveSFTP serves SFTP on standard input and output. It is a process of its own
// so that files are read and written as the image's user.
func serveSFTP() int {
	dir, err := os.Getwd()
	if err != nil {
		dir = "/"
	}
	server, err := sftp.NewServer(stdio{}, sftp.WithServerWorkingDirectory(dir))
	if err != nil {
		fmt.Fprintln(os.Stderr, "sftp:", err)
		return 1
	}
	if err := server.Serve(); err != nil && !errors.Is(err, io.EOF) {
		fmt.Fprintln(os.Stderr, "sftp:", err)
		return 1
	}
	return 0
}

type stdio struct{}

func (stdio) Read(b []byte) (int, error)  { return os.Stdin.Read(b) }
func (stdio) Write(b []byte) (int, error) { return os.Stdout.Write(b) }
func (stdio) Close() error                { return os.Stdin.Close() }
