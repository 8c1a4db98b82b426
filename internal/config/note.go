package config

import (
	"errors"
	"fmt"
	"strings"
)

// Note is a sentence about a configuration for people: what is wrong with it, or
// a warning. It is in English, and InChinese has it in Chinese.
type Note struct {
	english string
	args    []any
	plain   error // formatted, with the chain of what it wraps
}

// note makes a Note of an English text that chineseNotes has, too.
func note(english string, args ...any) *Note {
	return &Note{english: english, args: args, plain: fmt.Errorf(english, args...)}
}

// Error is the sentence in English.
func (n *Note) Error() string { return n.plain.Error() }

// Unwrap returns what the note is about, if that is an error.
func (n *Note) Unwrap() error { return errors.Unwrap(n.plain) }

// InChinese returns an error of this package in Simplified Chinese, one line for
// each thing that is wrong. What the system says stays as it is.
func InChinese(err error) string {
	if n, ok := err.(*Note); ok {
		args := make([]any, len(n.args))
		for i, a := range n.args {
			if e, wrapped := a.(error); wrapped {
				a = errors.New(InChinese(e))
			}
			args[i] = a
		}
		return fmt.Errorf(chineseNotes[n.english], args...).Error()
	}
	if all, ok := err.(interface{ Unwrap() []error }); ok {
		var lines []string
		for _, e := range all.Unwrap() {
			lines = append(lines, InChinese(e))
		}
		return strings.Join(lines, "\n")
	}
	if inner := errors.Unwrap(err); inner != nil && inner.Error() == err.Error() {
		return InChinese(inner)
	}
	return err.Error()
}
