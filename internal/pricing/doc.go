// Package pricing turns tariffs into frozen quotes and usage into amounts due.
// It is pure: values and times in, values out, no clock, no database, no floats.
//
// Usage is given whole, never in pieces: Due answers "what is owed for all of
// this so far", and whoever posts money posts the difference to what is posted
// already. So how often somebody asks, in which order usage arrived and where an
// interval was cut make no difference to the total, and rounding cannot drift:
// each meter is rounded once (storage: once a calendar month).
//
// The rules, with their sources in the comments of each function:
//
//	compute  the session's seconds, floored; up to the minimum at each start;
//	         up to whole minutes or hours where the tariff says so
//	storage  allocated GiB, stopped or not; a whole calendar month in the
//	         account's time zone costs the listed price exactly, also in months
//	         with a change of clocks
//	egress   bytes; a GB is 1,000,000,000 of them
//
// It imports money and nothing else of suanli.
package pricing
