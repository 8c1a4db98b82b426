// Package pricing turns tariffs into frozen quotes and usage into amounts due,
// under every plan, and has the arithmetic of discounts, taxes, invoices,
// availability and payouts. It is pure: values and times in, values out, no clock,
// no database, no floats.
//
// Usage is given whole, never in pieces: Due answers "what is owed for all of
// this so far", and whoever posts money posts the difference to what is posted
// already. So how often somebody asks, in which order usage arrived and where an
// interval was cut make no difference to the total, and rounding cannot drift:
// each meter is rounded once (what is kept by the month: once a calendar month).
// All that is a function of a month, such as volume discounts, is given the whole
// month for the same reason.
//
// The meters, with their sources in the comments of each function:
//
//	compute    the session's seconds, floored; up to the minimum at each start;
//	           up to whole minutes or hours where the tariff says so
//	storage    allocated GiB, stopped or not; a whole calendar month in the
//	           account's time zone costs the listed price exactly, also in months
//	           with a change of clocks; snapshots and idle volumes likewise
//	egress     bytes; a GB is 1,000,000,000 of them; ingress likewise
//	public_ip  the hours of all addresses together
//
// Quotes of version 1 are on demand and know the first three meters. They are
// rated as they always were, and keep their bytes. Version 2 has all plans and
// meters, prices that the renter agreed to later, and use that is paid for
// otherwise. One file has one subject:
//
//	due, session, kept     usage → amounts
//	quote, compare         what it would cost, under one plan and under all
//	calendar, monthly      boundaries, months in advance, proration, refunds
//	reserved               reservations: their price, and their use by the hour
//	pricelist              an account's own prices, frozen in quotes
//	grant, discount, tier  what takes something off, in a fixed order
//	tax, invoice, exchange what is put on paper, and in which currency
//	availability, payout   what is given back to renters and kept from hosts
//	forecast               how long money lasts
//	standing, dunning      how invoices stand, and what happens when nothing is paid
//
// It imports money and nothing else of suanli.
package pricing
