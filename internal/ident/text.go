package ident

import "unicode"

// Hidden returns the first character of a text that no reader sees and that may
// change how the rest is shown: a control character (C0, DEL, C1) or one that
// turns the direction of writing. A name with such a one can look like another's.
func Hidden(text string) (r rune, found bool) {
	for _, r := range text {
		if unicode.Is(unicode.Cc, r) || unicode.Is(unicode.Bidi_Control, r) || r == 0x2028 || r == 0x2029 {
			return r, true
		}
	}
	return 0, false
}
