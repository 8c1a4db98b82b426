// Package ident makes the identifiers of everything suanli stores: a short
// typed prefix and a UUIDv7 in Crockford base 32, such as
// "ls-01jv9z3k8h6e2m4q7r5t8w0xyz". They sort by time of creation, which keeps
// index pages of hot tables warm, and every one is a valid DNS label, since
// instances are reached by host name.
package ident

import (
	"encoding/base32"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
)

// Kind is the prefix of an identifier; it says what the identifier names.
type Kind string

// The kinds of identifiers.
const (
	Account  Kind = "ac"
	User     Kind = "us"
	Key      Kind = "ak"
	Session  Kind = "se"
	SSHKey   Kind = "sk"
	Host     Kind = "ho"
	Gateway  Kind = "gw"
	Token    Kind = "jt"
	Listing  Kind = "li"
	Quote    Kind = "qu"
	Lease    Kind = "ls"
	Usage    Kind = "ur"
	Charge   Kind = "ch"
	Grant    Kind = "gr"
	Transfer Kind = "tr"
	Invoice  Kind = "in"
	Request  Kind = "rq"
	Event    Kind = "ev"
	Audit    Kind = "au"
	Bid      Kind = "bd"

	Reservation Kind = "rv"
	Volume      Kind = "vo"
	Snapshot    Kind = "sn"

	Rate Kind = "xr" // of exchange between two currencies

	Maintenance Kind = "mw"
	Payout      Kind = "po"
	Payment     Kind = "pm"
	Repayment   Kind = "rf" // of a payment: a refund

	Notification Kind = "nt"
	Webhook      Kind = "wh"
	Delivery     Kind = "wd"

	Budget      Kind = "bg"
	PriceChange Kind = "pc"
	PriceList   Kind = "pl" // an operator's, for accounts
	Tiers       Kind = "vt" // of what a month's volume takes off

	Invitation Kind = "iv"
	Passkey    Kind = "pk"

	Cluster Kind = "cl"
	Run     Kind = "rn" // of a command on all nodes of a cluster

	Replica Kind = "rp" // a run of a control plane
	Drill   Kind = "dr"

	WaitingRequest Kind = "wr"
)

var encoding = base32.NewEncoding("0123456789abcdefghjkmnpqrstvwxyz").WithPadding(base32.NoPadding)

// New returns a fresh identifier of kind k. It panics only if the system's
// random source fails, as no identifier could be trusted then.
func New(k Kind) string {
	u := uuid.Must(uuid.NewV7())
	return string(k) + "-" + encoding.EncodeToString(u[:])
}

// Check reports an error unless s is an identifier of kind k.
func Check(k Kind, s string) error {
	rest, ok := strings.CutPrefix(s, string(k)+"-")
	if !ok {
		return fmt.Errorf("identifier %q: want one that starts with %q", s, string(k)+"-")
	}
	if b, err := encoding.DecodeString(rest); err != nil || len(b) != 16 {
		return fmt.Errorf("identifier %q: want %q and 26 characters of 0-9 and a-z without i, l, o, u", s, string(k)+"-")
	}
	return nil
}

// kinds are all kinds; see Resembles.
var kinds = []Kind{Account, User, Key, Session, SSHKey, Host, Gateway, Token, Listing, Quote, Lease, Usage, Charge, Rate, Transfer, Invoice, Request, Event, Audit, Bid, Maintenance, Payout, Notification, Webhook, Delivery, Payment, Repayment, Budget, PriceChange, PriceList, Tiers, Invitation, Passkey, Cluster, Run, Replica, Drill, Volume, Snapshot}

// resembling is how much of an identifier people show or compare: a prefix of one
// that is as long is taken for it.
const resembling = 10

// Resembles reports whether a name could be taken for an identifier, or for the
// beginning of one, of any kind. Ordinary words with such a prefix, like "us-east",
// do not.
func Resembles(name string) bool {
	kind, rest, ok := strings.Cut(name, "-")
	if !ok || len(rest) < resembling || !slices.Contains(kinds, Kind(kind)) {
		return false
	}
	return strings.Trim(rest, "0123456789abcdefghjkmnpqrstvwxyz") == ""
}

// First returns the lowest identifier of kind k that can have been made at t or
// later, to the millisecond: identifiers made before t sort before it.
func First(k Kind, t time.Time) string {
	var u [16]byte
	binary.BigEndian.PutUint64(u[:8], uint64(max(0, t.UnixMilli()))<<16)
	return string(k) + "-" + encoding.EncodeToString(u[:])
}
