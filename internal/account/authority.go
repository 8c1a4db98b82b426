package account

import "slices"

// Role is what a user may do within an account.
type Role string

// The roles. An operator is a user of any account with Principal.Operator set.
const (
	Owner   Role = "owner"
	Admin   Role = "admin"
	Member  Role = "member"
	Billing Role = "billing"
	Viewer  Role = "viewer"
)

// Action is one kind of thing that a request does. Each HTTP operation names
// exactly one; an API key's scopes are actions.
type Action string

// The actions.
const (
	ReadMarket   Action = "market:read" // search, models, templates, quotes
	ReadLeases   Action = "lease:read"
	WriteLeases  Action = "lease:write"
	EnterLeases  Action = "lease:enter" // SSH, ports, logs
	ReadBilling  Action = "billing:read"
	WriteBilling Action = "billing:write" // budgets and the like; never deposits
	ReadAccount  Action = "account:read"
	WriteAccount Action = "account:write" // users, roles, API keys of others
	WriteSelf    Action = "self:write"    // one's own keys and password
	ReadHosts    Action = "host:read"
	WriteHosts   Action = "host:write" // join tokens, listings, maintenance
	Operate      Action = "operate"    // everything that only an operator may
)

// allowed is the whole table of who may do what in their own account.
var allowed = map[Role][]Action{
	Owner:   {ReadMarket, ReadLeases, WriteLeases, EnterLeases, ReadBilling, WriteBilling, ReadAccount, WriteAccount, WriteSelf, ReadHosts, WriteHosts},
	Admin:   {ReadMarket, ReadLeases, WriteLeases, EnterLeases, ReadBilling, ReadAccount, WriteAccount, WriteSelf, ReadHosts, WriteHosts},
	Member:  {ReadMarket, ReadLeases, WriteLeases, EnterLeases, ReadAccount, WriteSelf, ReadHosts},
	Billing: {ReadMarket, ReadLeases, ReadBilling, WriteBilling, ReadAccount, WriteSelf},
	Viewer:  {ReadMarket, ReadLeases, ReadAccount, ReadHosts, WriteSelf},
}

// Principal is who makes a request.
type Principal struct {
	UserID    string
	AccountID string
	Role      Role
	Operator  bool
	// Scopes limits what an API key may do; nil: all that its user may.
	Scopes []Action
	// KeyID is the API key or session used, for the audit log.
	KeyID string
}

// May reports whether p may do a, within its own account. Another tenant's
// things are beyond this question: services look only in p.AccountID.
func (p Principal) May(a Action) bool {
	if p.UserID == "" {
		return false
	}
	if p.Scopes != nil && !slices.Contains(p.Scopes, a) {
		return false
	}
	if p.Operator {
		return true
	}
	return slices.Contains(allowed[p.Role], a)
}
