// Package mail sends messages by an operator's SMTP server: plain text in UTF-8, one
// receiver at a time, encrypted on the way unless the server is on this machine or the
// operator says otherwise. It keeps nothing and tries once; who sends knows whether
// trying again makes sense. It imports nothing of this module.
package mail
