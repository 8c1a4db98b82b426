// Package statemachine shows the state machines of the services to people. It is pure,
// and imports nothing of this module.
package statemachine
