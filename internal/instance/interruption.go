package instance

import (
	"fmt"
	"io"
	"os"

	"suanli.dev/internal/protocol"
)

// tellInterruption replaces the file by which programs inside know that the
// instance will be interrupted; an empty text removes it. The agent calls it.
func tellInterruption(path, text string, stderr io.Writer) int {
	var err error
	if text == "" {
		if err = os.Remove(path); os.IsNotExist(err) {
			err = nil
		}
	} else if err = os.WriteFile(path+".new", []byte(text+"\n"), 0o644); err == nil {
		err = os.Rename(path+".new", path)
	}
	if err != nil {
		fmt.Fprintln(stderr, "suanli instance interruption:", err)
		return 1
	}
	return 0
}

// forgetInterruption removes what an earlier container of the lease was told.
func forgetInterruption(path string) { _ = os.Remove(path) }

// interruptionFile is where it is in a run folder.
const interruptionFile = protocol.InstanceInterruptionName
